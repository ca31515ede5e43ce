"""sgd, adam and adamw: torch's own, with torch's results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from raycipe.framework.registry import make

PAIRS = [
    ("sgd", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("sgd", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("adam", torch.optim.Adam, {"lr": 0.01, "betas": (0.8, 0.99), "eps": 1e-6, "weight_decay": 0.1}),
    ("adam", torch.optim.Adam, {"amsgrad": True}),
    ("adamw", torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
]


def steps(make_optimizer: Any, count: int = 5) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Linear(4, 3).double()
    optimizer = make_optimizer(model.parameters())
    x, y = torch.randn(8, 4).double(), torch.randn(8, 3).double()
    for _ in range(count):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return list(model.parameters())


@pytest.mark.parametrize(("name", "reference", "arguments"), PAIRS)
@pytest.mark.parametrize("fused", [False, True, None])
def test_steps_equal_those_of_torch(name: str, reference: Any, arguments: dict[str, Any], fused: bool | None) -> None:
    ours = steps(lambda params: make(f"optimizers/{name}", params=params, fused=fused, **arguments))
    theirs = steps(lambda params: reference(params, fused=fused is not False, **arguments))
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)


def test_adamw_decays_weights_and_adam_the_gradient() -> None:
    def one_step(name: str) -> float:
        weight = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
        optimizer = make(f"optimizers/{name}", params=[weight], lr=0.1, weight_decay=0.5, eps=1e-12)
        weight.grad = torch.tensor([1.0], dtype=torch.float64)
        optimizer.step()
        return weight.item()

    assert one_step("adamw") == pytest.approx(2 * (1 - 0.05) - 0.1)  # decay, then a full step of lr
    assert one_step("adam") == pytest.approx(2 - 0.1)  # the first step has the size lr whatever the gradient


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_fused_is_chosen_for_plain_floating_point_parameters_only(name: str) -> None:
    chosen = make(f"optimizers/{name}", params=iter([nn.Parameter(torch.ones(2))]))
    assert chosen.param_groups[0]["fused"] is True
    groups = [{"params": iter([nn.Parameter(torch.ones(2))]), "lr": 0.5}, {"params": [nn.Parameter(torch.ones(1))]}]
    grouped = make(f"optimizers/{name}", params=groups, lr=0.25)
    assert [group["lr"] for group in grouped.param_groups] == [0.5, 0.25]
    meta = make(f"optimizers/{name}", params=[nn.Parameter(torch.ones(2, device="meta"))])
    assert meta.param_groups[0]["fused"] is False


def test_a_schedule_is_kept_for_the_loop() -> None:
    optimizer = make("optimizers/sgd", params=[nn.Parameter(torch.ones(2))], schedule={"type": "cosine", "warmup": 3})
    assert (
        optimizer.schedule.warmup == 3 and make("optimizers/sgd", params=[nn.Parameter(torch.ones(2))]).schedule is None
    )


def test_nesterov_without_momentum_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^nesterov: needs momentum > 0 and dampening 0"):
        make("optimizers/sgd", params=[nn.Parameter(torch.ones(2))], nesterov=True)
