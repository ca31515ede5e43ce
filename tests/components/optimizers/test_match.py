"""Compressors of one strength, as measured on what is really sent."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from raycipe.components.optimizers._match import Matching, at_strength, crossing, measured
from raycipe.framework.comm import Comm, LocalComm, SimulatedWorld
from raycipe.framework.contracts import Draw, OptimizerRun
from raycipe.framework.errors import RunError
from raycipe.framework.registry import build, make

MEASURED: dict[str, Any] = {"alpha": 0.3, "mode": "measured", "steps": 8}


def trained(comm: Comm, compressor: Any, steps: int, type_: str = "ef_sgd", **arguments: Any) -> Any:
    """Two fragments of normal gradients, on which Top-k keeps far more than its worst case."""
    weights = [nn.Parameter(torch.zeros(40)), nn.Parameter(torch.zeros(4000))]
    given = {"fragment_mb": 1e-2, "lr": 0.1} if type_ == "ef_sgd" else {"H": 1, "inner": {"type": "sgd", "lr": 0.1}}
    made = make(f"optimizers/{type_}", params=weights, compressor=compressor, match=MEASURED, **given, **arguments)
    made.prepare(OptimizerRun(steps, comm.group(), 3, lambda: torch.zeros(())))
    go(made, weights, comm, range(steps))
    return made, weights


def go(optimizer: Any, weights: Any, comm: Comm, steps: range) -> list[float]:
    seen = []
    for step in steps:
        generator = torch.Generator().manual_seed(1000 * comm.rank + step)
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=generator) + 0.1 * weight.detach()
        optimizer.step()
        seen.append(optimizer.stats().get("comm/alpha", 0.0))
    return seen


@pytest.mark.parametrize("compressor", ["topk", "randk", "qsgd", "signnorm"])
def test_the_factor_that_is_seen_is_the_one_asked_for(compressor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    fit = Matching.fit

    def watched(self: Matching, message: Any, draw: Draw) -> float:
        found = fit(self, message, draw)
        seen.append(measured(at_strength(self.compressor, math.exp(found), self.numel), message, draw, self.shapes))
        return found

    monkeypatch.setattr(Matching, "fit", watched)

    def work(comm: Comm) -> tuple[float, float, float]:
        optimizer, weights = trained(comm, {"type": compressor}, 8)
        strength = optimizer.stats()["comm/strength"]
        go(optimizer, weights, comm, range(8, 12))
        return strength, optimizer.stats()["comm/strength"], weights[1].detach().sum().item()

    first, second = SimulatedWorld(2).run(work)
    assert first == second and first[0] == first[1]  # found by all, and kept
    assert len(seen) == 2 * MEASURED["steps"] and sum(seen) / len(seen) == pytest.approx(0.3, rel=0.05)


def test_top_k_is_seen_with_that_factor_and_is_weaker_in_the_worst_case() -> None:
    weight = nn.Parameter(torch.zeros(4000))
    optimizer = make("optimizers/ef_sgd", params=[weight], lr=0.1, compressor="topk", match=MEASURED)
    seen = go(optimizer, [weight], LocalComm(), range(8))
    assert sum(seen) / len(seen) == pytest.approx(0.3, rel=0.02)
    assert optimizer.stats()["comm/strength"] < 0.1


def test_diloco_finds_it_too_and_a_resumed_run_keeps_it() -> None:
    def work(comm: Comm) -> tuple[list[float], list[float]]:
        whole, weights = trained(comm, {"type": "topk"}, 6, "diloco", fragments=2)
        states = whole.state_dict(), whole.rank_state_dict()
        start = [weight.detach().clone() for weight in weights]
        resumed, others = trained(comm, {"type": "topk"}, 0, "diloco", fragments=2)
        for other, value in zip(others, start, strict=True):
            other.data.copy_(value)
        resumed.load_state_dict(states[0])
        resumed.load_rank_state(states[1], [states[1]] * comm.world_size)
        for optimizer, parameters in ((whole, weights), (resumed, others)):
            go(optimizer, parameters, comm, range(6, 12))
        return [*weights[1].tolist()], [*others[1].tolist()]

    for unbroken, broken in SimulatedWorld(2).run(work):
        assert unbroken == broken


def test_the_crossing_of_a_growing_function() -> None:
    assert math.exp(crossing(math.exp, 0.25)) == pytest.approx(0.25, rel=2e-3)
    assert crossing(lambda logarithm: 0.1, 0.5) == 0.0  # it never gets there: the strongest


def test_a_lazy_compressors_factor_is_its_share_of_the_inner_one() -> None:
    half = build({"type": "lazy", "inner": "identity", "p": 0.5}, "compressors", "compressor")
    assert measured(half, torch.ones(7), Draw(0), [(7,)]) == pytest.approx(0.5)


def test_what_has_no_closed_form_points_to_the_measured_one() -> None:
    with pytest.raises(ValueError, match="mode: measured"):
        make("optimizers/ef_sgd", params=[nn.Parameter(torch.zeros(9))], compressor="signnorm", match={"alpha": 0.1})


def test_shards_have_no_measured_match() -> None:
    def work(comm: Comm) -> None:
        with pytest.raises(RunError, match="can't be cut into shards"):
            trained(comm, {"type": "topk"}, 1, collective="two_phase")

    SimulatedWorld(2).run(work)
