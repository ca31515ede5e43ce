"""Excess risk: exact where the data tell the truth, against the best model elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from raycipe.components.measures.excess_risk import exact_excess, linear_map
from raycipe.framework.contracts import Skipped, TensorSplit, Trained
from raycipe.framework.registry import make

REGRESSION = {"task": {"type": "regression"}}


def linear(weights: list[float], bias: float = 0.0) -> nn.Module:
    layer = nn.Linear(len(weights), 1)
    layer.weight.data, layer.bias.data = torch.tensor([weights]), torch.tensor([bias])
    return layer


def there(model: nn.Module, facts: Any = None, **splits: Any) -> Trained:
    parts = {name: TensorSplit(dict(zip("xy", pair, strict=True))) for name, pair in splits.items()}
    task = make("tasks/regression")
    return Trained(REGRESSION, parts, facts or {}, model, lambda: linear([0.0, 0.0]), task)


def test_it_is_exact_where_the_truth_is_known() -> None:
    facts = {"true_weights": [1.0, -1.0], "feature_variances": [0.75, 0.25]}
    found = make("measures/excess_risk").measure(there(linear([0.0, 1.0], 0.5), facts))
    assert found.values == {"excess": pytest.approx(0.75 + 0.25 * 4 + 0.25)}
    assert exact_excess(torch.tensor([1.0, -1.0]), 0.0, facts) == 0


def test_it_is_the_mean_square_beyond_the_noise() -> None:
    data = make("data/powerlaw_regression", examples=1, test=200_000, features=16, noise=0.5)
    split = data.load(0)["test"].tensors
    weights = torch.linspace(-1, 1, 16)
    measured = float((split["x"] @ weights - split["y"][:, 0]).square().mean()) - 0.25
    assert exact_excess(weights, 0.0, data.facts) == pytest.approx(measured, rel=0.02)


def test_what_is_no_linear_map_is_told_from_one() -> None:
    found = linear_map(linear([2.0, 3.0], 1.0), 2, torch.device("cpu"))
    assert found is not None
    assert found[0].tolist() == pytest.approx([2, 3]) and found[1] == pytest.approx(1)
    bent = nn.Sequential(linear([2.0, 3.0]), nn.Tanh())
    assert linear_map(bent, 2, torch.device("cpu")) is None


def test_elsewhere_the_least_training_loss_is_the_best() -> None:
    generator = torch.Generator().manual_seed(0)
    x, noise = torch.randn(2, 60, 2, generator=generator), torch.randn(2, 60, 1, generator=generator)
    y = x @ torch.tensor([[1.0], [2.0]]) + 0.3 * noise
    found = make("measures/excess_risk").measure(there(linear([0.5, 2.0]), train=(x[0], y[0]), test=(x[1], y[1])))
    inputs = torch.cat([x, torch.ones(2, 60, 1)], 2).double()
    best = torch.linalg.lstsq(inputs[0], y[0].double()).solution
    ours = torch.tensor([[0.5], [2.0], [0.0]]).double()
    train, test = ([float((inputs[i] @ w - y[i].double()).square().mean()) for w in (ours, best)] for i in (0, 1))
    assert found.values["excess"] == pytest.approx(test[0] - test[1], abs=1e-5)
    assert found.values["optimization"] == pytest.approx(train[0] - train[1], abs=1e-5)
    assert found.values["gap"] == pytest.approx(test[0] - train[0], abs=1e-5)


def test_without_a_test_split_nothing_is_said() -> None:
    with pytest.raises(Skipped, match="`test` split"):
        make("measures/excess_risk").measure(there(linear([0.0, 0.0]), train=(torch.ones(2, 2), torch.ones(2, 1))))
