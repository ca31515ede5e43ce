"""Norms of the weights and the way they went."""

from __future__ import annotations

from typing import Any

from torch import nn

from raycipe.framework.registry import make


def build(value: float) -> nn.Module:
    model = nn.Linear(2, 2)
    nn.init.constant_(model.weight, value)
    nn.init.constant_(model.bias, 0.0)
    return model


def test_weight_norms_and_the_distance_from_the_start(trained: Any) -> None:
    found = make("measures/weight_norms").measure(trained(build(3.0), initial_model=lambda: build(1.0)))
    assert found.values == {"norm": 6.0, "largest": 3.0, "distance": 4.0}
    assert found.tables["norms"][0] == {"parameter": "weight", "norm": 6.0, "distance": 4.0}


def test_without_the_initial_model_the_distance_is_left_out(trained: Any) -> None:
    assert make("measures/weight_norms").measure(trained(build(-3.0))).values == {"norm": 6.0, "largest": 3.0}
