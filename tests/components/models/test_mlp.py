"""The multilayer perceptron."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from raycipe.framework.registry import make


def test_layers_follow_the_argument_order() -> None:
    model = make(
        "models/mlp", num_features=4, num_outputs=2, hidden=[3, 5], activation="gelu", norm="layer", dropout=0.2
    )
    names = [type(layer).__name__ for layer in model.layers]
    block = ["Linear", "LayerNorm", "GELU", "Dropout"]
    assert names == ["Flatten", *block, *block, "Linear"]
    assert [layer.out_features for layer in model.layers if isinstance(layer, nn.Linear)] == [3, 5, 2]


def test_no_hidden_layer_is_a_linear_model() -> None:
    model = make("models/mlp", num_features=4, num_outputs=2, hidden=[])
    assert sum(p.numel() for p in model.parameters()) == 4 * 2 + 2


@pytest.mark.parametrize(("activation", "gain"), [("relu", 2.0), ("tanh", 1.0)])
def test_initial_weights_have_the_stated_variance(activation: str, gain: float) -> None:
    torch.manual_seed(0)
    model = make("models/mlp", num_features=500, num_outputs=400, hidden=[1000], activation=activation)
    first, last = (layer for layer in model.layers if isinstance(layer, nn.Linear))
    assert abs(float(first.weight.var()) / (gain / 500) - 1) < 0.01  # 6 standard errors of 500,000 draws: 0.012
    assert abs(float(last.weight.var()) / (1 / 1000) - 1) < 0.01
    assert float(first.bias.abs().max()) == 0


def test_batch_norm_evaluates_with_running_statistics() -> None:
    model = make("models/mlp", num_features=3, num_outputs=2, hidden=[4], norm="batch").eval()
    assert model(torch.ones(1, 3)).shape == (1, 2)
