"""AdamW: torch's own, with torch's results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from raycipe.framework.registry import make


@pytest.mark.parametrize(
    "arguments",
    [
        {"lr": 0.01, "weight_decay": 0.1},
        {"amsgrad": True, "betas": (0.8, 0.99)},
    ],
)
@pytest.mark.parametrize("fused", [False, True, None])
def test_steps_equal_those_of_torch(arguments: dict[str, Any], fused: bool | None, after_steps: Any) -> None:
    ours = after_steps(lambda params: make("optimizers/adamw", params=params, fused=fused, **arguments))
    theirs = after_steps(lambda params: torch.optim.AdamW(params, fused=fused is not False, **arguments))
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)


def test_weight_decay_acts_on_the_weights() -> None:
    weight = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimizer = make("optimizers/adamw", params=[weight], lr=0.1, weight_decay=0.5, eps=1e-12)
    weight.grad = torch.tensor([1.0], dtype=torch.float64)
    optimizer.step()
    assert weight.item() == pytest.approx(2 * (1 - 0.05) - 0.1)  # decay, then a full step of lr
