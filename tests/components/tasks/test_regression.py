"""Regression: losses, root mean square, and what is said of unusable targets."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from raycipe.framework.contracts import TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

BATCH = {"x": torch.tensor([[1.0, 0.0], [0.0, 4.0]]), "y": torch.tensor([[0.0, 0.0], [0.0, 1.0]])}  # residuals 1 0 0 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, 10 / 4),
        ({"loss": "mae"}, 4 / 4),
        ({"loss": "huber", "delta": 2.0}, (0.5 + 2 * (3 - 1)) / 4),
    ],
)
def test_losses_equal_their_formula(arguments: dict[str, object], expected: float) -> None:
    assert make("tasks/regression", **arguments).loss(nn.Identity(), BATCH).value.item() == pytest.approx(expected)


def test_rmse_is_the_root_of_the_mean_over_all_batches() -> None:
    task = make("tasks/regression")
    halves = [{key: values[i : i + 1] for key, values in BATCH.items()} for i in range(2)]
    sums = [task.scores(half["x"], half) for half in halves]
    means = {name: float(sum(part[name] for part in sums)) / 2 for name in sums[0]}
    assert task.finish(means) == pytest.approx({"rmse": 2.5**0.5, "mae": 1.0})


def test_flat_targets_of_one_dimension_are_taken_as_a_column() -> None:
    batch = {"x": torch.tensor([[1.0], [2.0]]), "y": torch.tensor([0.0, 0.0])}
    assert make("tasks/regression").loss(nn.Identity(), batch).value.item() == 2.5


def test_r2_averages_over_the_target_dimensions() -> None:
    task = make("tasks/regression", metrics=["r2"])
    y = torch.tensor([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])
    metrics = task.metrics()
    task.update(metrics, torch.stack([y[:, 0], torch.full((3,), 2.0)], dim=1), {"y": y})
    assert float(metrics["r2"].compute()) == pytest.approx(0.5)  # perfect and the mean
    assert task.metrics() is not metrics and make("tasks/regression").metrics() == {}


def test_unusable_targets_are_named() -> None:
    task = make("tasks/regression")

    def message(y: torch.Tensor) -> str:
        with pytest.raises(RunError) as caught:
            task.check({"num_outputs": 1}, {"test": TensorSplit({"x": torch.ones(3, 2), "y": y})})
        return str(caught.value)

    whole = message(torch.tensor([0, 1, 2]))
    assert "test: y must be float32 or float64, not int64" in whole and "data.target_type: number" in whole
    assert "test: example 1: y holds inf" in message(torch.tensor([0.0, float("inf"), 2.0]))
    assert "test: y holds 2 numbers an example, but the model has 1 outputs" in message(torch.ones(3, 2))
