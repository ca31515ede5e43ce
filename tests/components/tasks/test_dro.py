"""dro: the simplex, the worst weights, groups."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

from raycipe.components.tasks._saddle import onto_simplex
from raycipe.components.tasks.dro import worst_weights
from raycipe.framework.contracts import TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def _by_trying(point: Tensor) -> Tensor:
    """The nearest point of the simplex: over every set of positive entries, the projection onto its plane."""
    best, least = point, float("inf")
    for size in range(1, len(point) + 1):
        for chosen in combinations(range(len(point)), size):
            index = list(chosen)
            other = torch.zeros_like(point)
            other[index] = point[index] + (1 - point[index].sum()) / size
            if float(other.min()) >= 0 and float((other - point).square().sum()) < least:
                best, least = other, float((other - point).square().sum())
    return best


def test_projection_onto_the_simplex_equals_the_search_over_all_faces() -> None:
    points = 2 * torch.randn(200, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    projected = onto_simplex(points)
    assert float((projected.sum(-1) - 1).abs().max()) < 1e-12 and float(projected.min()) >= 0
    torch.testing.assert_close(projected, torch.stack([_by_trying(point) for point in points]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("divergence", ["chi2", "kl"])
def test_worst_weights_go_from_equal_to_the_worst_group(divergence: str) -> None:
    losses = torch.tensor([0.1, 0.9, 0.3], dtype=torch.float64)
    torch.testing.assert_close(
        worst_weights(losses, 1e6, divergence), torch.full((3,), 1 / 3).double(), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(worst_weights(losses, 1e-3, divergence), torch.tensor([0.0, 1, 0]).double())


def test_mean_of_f_weighs_the_groups_losses(game: Any) -> None:
    found = game("dro", {"groups": "y", "rho": 0.5}, outputs=2)
    q = found.saddle.max["q"].detach()
    losses = torch.nn.functional.cross_entropy(
        found.saddle(found.batch["x"]), found.batch["y"], reduction="none"
    ).detach()
    by_group = torch.stack([losses[found.batch["y"] == j].mean() for j in range(2)])
    wanted = (q * by_group).sum() - 0.5 * (2 * q - 1).square().sum() / 4
    assert float(found.task.evaluate(found.saddle, found.batch)[0].mean() - wanted) == pytest.approx(0, abs=1e-12)


def test_groups_without_examples_or_names_are_told() -> None:
    facts = {"num_classes": 3}

    def message(**arguments: Any) -> str:
        split = TensorSplit({"x": torch.ones(3, 2), "y": torch.tensor([0, 2, 2])})
        with pytest.raises(RunError) as caught:
            make("tasks/dro", facts=facts, **arguments).check(facts, {"train": split})
        return str(caught.value)

    assert "train: group 1 of `y` has no example" in message(groups="y")
    assert "the examples have no `region`" in message(groups="region")
