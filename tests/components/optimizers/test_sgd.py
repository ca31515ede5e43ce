"""Stochastic gradient descent: torch's own, with torch's results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from raycipe.framework.registry import make


@pytest.mark.parametrize(
    "arguments",
    [
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
    ],
)
@pytest.mark.parametrize("fused", [False, True, None])
def test_steps_equal_those_of_torch(arguments: dict[str, Any], fused: bool | None, after_steps: Any) -> None:
    ours = after_steps(lambda params: make("optimizers/sgd", params=params, fused=fused, **arguments))
    theirs = after_steps(lambda params: torch.optim.SGD(params, fused=fused is not False, **arguments))
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)


def test_fused_is_chosen_for_plain_floating_point_parameters_only() -> None:
    chosen = make("optimizers/sgd", params=iter([nn.Parameter(torch.ones(2))]))
    assert chosen.param_groups[0]["fused"] is True
    meta = make("optimizers/sgd", params=[nn.Parameter(torch.ones(2, device="meta"))])
    assert meta.param_groups[0]["fused"] is False


def test_groups_keep_their_own_rate() -> None:
    groups = [{"params": iter([nn.Parameter(torch.ones(2))]), "lr": 0.5}, {"params": [nn.Parameter(torch.ones(1))]}]
    assert [group["lr"] for group in make("optimizers/sgd", params=groups, lr=0.25).param_groups] == [0.5, 0.25]


def test_a_schedule_is_kept_for_the_loop() -> None:
    params = [nn.Parameter(torch.ones(2))]
    assert make("optimizers/sgd", params=params, schedule={"type": "cosine", "warmup": 3}).schedule.warmup == 3
    assert make("optimizers/sgd", params=params).schedule is None


def test_nesterov_without_momentum_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^nesterov: needs momentum > 0 and dampening 0"):
        make("optimizers/sgd", params=[nn.Parameter(torch.ones(2))], nesterov=True)
