"""noisy: the distributions of what is added."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.components.gradients.exact import Exact
from raycipe.components.gradients.noisy import Noisy

LIKE = torch.zeros(200_000, dtype=torch.float64)


@pytest.mark.parametrize(
    ("kind", "tail", "beyond"),
    [("gauss", 3.0, 0.0455), ("student", 3.0, 0.1393), ("pareto", 3.0, (1 / 3) ** 3)],
)
def test_shares_beyond_two_are_those_of_the_distribution(kind: Any, tail: float, beyond: float) -> None:
    noise = Noisy(kind=kind, tail=tail, base=Exact())._draw(LIKE, torch.Generator().manual_seed(0))
    assert float((noise.abs() > 2).double().mean()) == pytest.approx(beyond, abs=3 * (beyond / len(LIKE)) ** 0.5)
    assert abs(float((noise > 0).double().mean()) - 0.5) < 3 * 0.5 / len(LIKE) ** 0.5


def test_noise_is_added_to_the_base_and_repeats_itself_by_step(problem: Any) -> None:
    found = problem("bilinear", {}, dim=3)
    w, v = found.point()
    exact = found.gradients(w, v)[0]
    noisy = Noisy(scale=0.5, base=Exact())
    first = noisy.estimate(found, w, v).w - exact
    found.begin(1)
    second = noisy.estimate(found, w, v).w - exact
    found.begin(0)
    found._calls = (-1, 0)
    assert not torch.allclose(first, second) and torch.equal(noisy.estimate(found, w, v).w - exact, first)
