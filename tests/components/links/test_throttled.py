"""Links under an optimizer's exchanges, on a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from raycipe.components.optimizers._linked import LinkedComm
from raycipe.framework.comm import Comm, LocalComm, SimulatedWorld
from raycipe.framework.contracts import OptimizerRun
from raycipe.framework.registry import make

SECOND = 12_500_000  # bytes in a second at 100 Mbit/s


class Clock:
    """Seconds that pass only when somebody works or sleeps."""

    def __init__(self) -> None:
        self.time, self.slept = 0.0, 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time, self.slept = self.time + seconds, self.slept + seconds


def linked(comm: Comm, clock: Clock, type_: str, **arguments: Any) -> LinkedComm:
    link = make(f"links/{type_}", bandwidth_mbps=100, **arguments)
    return LinkedComm(comm, link, 0, clock.now, clock.sleep)


def on_two(work: Any) -> list[Any]:
    return SimulatedWorld(2).run(work)


@pytest.mark.parametrize("type_", ["modelled", "throttled"])
def test_work_meanwhile_hides_the_time_of_an_exchange(type_: str) -> None:
    def work(comm: Comm) -> tuple[float, float, float]:
        clock = Clock()
        on = linked(comm, clock, type_)
        pending = on.start_all_gather(torch.zeros(2 * SECOND, dtype=torch.uint8))
        clock.time += 0.5
        pending.wait()
        pending.wait()  # once is enough
        return on.now(), clock.slept, on.totals["link_seconds"]

    for now, slept, counted in on_two(work):
        assert now == pytest.approx(2.0) and counted == pytest.approx(1.5)
        assert slept == (pytest.approx(1.5) if type_ == "throttled" else 0)


def test_exchanges_follow_each_other_and_bytes_are_the_wires() -> None:
    def work(comm: Comm) -> tuple[float, int, dict[str, float]]:
        on = linked(comm, Clock(), "modelled", latency_ms=100)
        pending = [on.start_all_reduce(torch.zeros(SECOND, dtype=torch.uint8)) for _ in range(2)]
        for one in reversed(pending):
            one.wait()
        return on.now(), comm.bytes_sent, on.totals

    for now, sent, totals in on_two(work):
        assert now == pytest.approx(2 * (1 + 2 * 0.1)) and sent == 2 * SECOND
        assert totals["exchanges"] == 2 and totals["hops"] == 4 and totals["wait_seconds"] == 0


def test_jitter_is_the_same_on_all_ranks() -> None:
    def work(comm: Comm) -> list[float]:
        on = linked(comm, Clock(), "modelled", jitter_ms=1000)
        found = []
        for _ in range(5):
            on.all_gather(torch.zeros(1))
            found.append(on.now())
        return found

    first, second = on_two(work)
    assert first == second
    steps = [b - a for a, b in zip([0.0, *first], first, strict=False)]
    assert len(set(steps)) == 5 and all(0 <= step <= 1.001 for step in steps)


def test_one_worker_alone_has_no_network() -> None:
    on = linked(LocalComm(), Clock(), "throttled")
    on.all_reduce(torch.zeros(10))
    assert on.now() == 0 and on.totals["exchanges"] == 0


@pytest.mark.parametrize("type_", ["ef_sgd", "diloco", "local_sgd"])
def test_a_link_changes_the_time_and_nothing_else(type_: str) -> None:
    inner = {} if type_ == "ef_sgd" else {"H": 2, "inner": {"type": "sgd", "lr": 0.1}}
    compressor = {} if type_ == "local_sgd" else {"compressor": {"type": "topk", "k": 1}}

    def steps(comm: Comm, link: Any) -> tuple[list[float], dict[str, Any]]:
        weight = nn.Parameter(torch.zeros(6))
        optimizer = make(f"optimizers/{type_}", params=[weight], link=link, **inner, **compressor)
        optimizer.prepare(OptimizerRun(4, comm, 0, lambda: torch.zeros(())))
        for step in range(4):
            weight.grad = torch.arange(6.0) + step + comm.rank
            optimizer.step()
        return weight.tolist(), optimizer.stats()

    slow = {"type": "modelled", "bandwidth_mbps": 0.001, "latency_ms": 1e6}
    plain, on = on_two(lambda comm: steps(comm, None)), on_two(lambda comm: steps(comm, slow))
    assert [weights for weights, _ in plain] == [weights for weights, _ in on]
    exchanges = 4 if type_ == "ef_sgd" else 2
    for (_, before), (_, after) in zip(plain, on, strict=True):
        assert "comm/exchanges" not in before
        assert after["comm/exchanges"] == exchanges
        hops = 2 if type_ == "local_sgd" else 1
        assert after["comm/link_seconds"] >= exchanges * hops * 1000 - 1  # a thousand seconds each, less what passed
