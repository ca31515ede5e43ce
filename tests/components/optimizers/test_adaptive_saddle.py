"""adaptive_saddle: Adam's steps for both players."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.framework.registry import make


@pytest.mark.parametrize("base", ["adam", "amsgrad"])
def test_steps_of_w_are_adams_own(base: str) -> None:
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.ones(4, dtype=torch.float64)) for _ in range(2))
    mine = make("optimizers/adaptive_saddle", params=[ours], lr=0.1, base=base)
    adam = torch.optim.Adam([theirs], lr=0.1, amsgrad=base == "amsgrad")
    for _ in range(20):
        gradient = torch.randn(4, dtype=torch.float64)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        mine.step()
        adam.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_v_ascends(play: Any) -> None:
    run = play({"type": "adaptive_saddle", "lr": 0.01}, steps=1)
    assert (float(run.w), float(run.v)) == pytest.approx((0.99, 1.01), abs=1e-6)
