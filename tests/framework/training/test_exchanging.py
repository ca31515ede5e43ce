"""Optimizers that exchange by themselves, in the loop and over gloo: what travels, and what a resumed run ends at."""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raycipe.framework.comm import Comm, SimulatedWorld, TorchComm
from raycipe.framework.contracts import OptimizerRun
from raycipe.framework.registry import make

TOPK = {"type": "topk", "ratio": 0.1}
ACKED = 120  # offset of the bytes that the other side has acknowledged in Linux's struct tcp_info
MODEL = {"type": "net", "norm": False}  # BatchNorm statistics stay private to a rank


def fresh(folder: Path) -> Path:
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    return folder


def recipe_of(toy: Any, **arguments: Any) -> Any:
    optimizer = {"type": "ef_sgd", "lr": 0.05, "schedule": {"type": "cosine"}, "compressor": TOPK, **arguments}
    return toy(optimizer=optimizer, model=MODEL, train_log_every=3)


@pytest.mark.parametrize(
    "arguments",
    [
        {"momentum": 0.9},
        {"variant": "ef21_sgdm", "average": "uniform"},
        {"compressor": {"type": "powersgd", "rank": 1, "min_numel": 1}},
        {"collective": "two_phase", "compressor": {"type": "qsgd", "block": 16}},
    ],
    ids=str,
)
def test_a_broken_run_of_two_workers_ends_at_the_unbroken_result(
    arguments: dict[str, Any], toy: Any, fit: Any, end_of: Any, world: Any, tmp_path: Path
) -> None:
    recipe = recipe_of(toy, **arguments)
    wanted = world(2, lambda rank: end_of(recipe, fresh(tmp_path / "unbroken"))).gather()

    def first(rank: int) -> Any:
        def stop(session: Any, event: str) -> None:
            session.watch.requested = session.step >= 23

        return fit(recipe, fresh(tmp_path / "broken"), hooks=[stop]).steps

    assert world(2, first).gather() == [27, 27]
    assert world(2, lambda rank: end_of(recipe, tmp_path / "broken", True)).gather() == wanted
    assert wanted[0]["weights"] == wanted[1]["weights"]


@pytest.mark.parametrize(
    "arguments",
    [{"fragments": 2, "overlap_steps": 1}, {"overlap_steps": 3, "mix": "add_local", "average": "uniform"}],
    ids=str,
)
def test_a_run_broken_in_mid_round_ends_at_the_unbroken_result(
    arguments: dict[str, Any], toy: Any, fit: Any, end_of: Any, world: Any, tmp_path: Path
) -> None:
    inner = {"type": "adamw", "lr": 0.01, "schedule": {"type": "cosine"}}
    optimizer = {"type": "diloco", "H": 5, "inner": inner, "compressor": TOPK, **arguments}
    recipe = toy(optimizer=optimizer, model=MODEL, train_log_every=3)
    wanted = world(2, lambda rank: end_of(recipe, fresh(tmp_path / "unbroken"))).gather()

    def first(rank: int) -> Any:
        def stop(session: Any, event: str) -> None:
            session.watch.requested = session.step >= 23

        return fit(recipe, fresh(tmp_path / "broken"), hooks=[stop]).steps

    assert world(2, first).gather() == [27, 27]
    assert world(2, lambda rank: end_of(recipe, tmp_path / "broken", True)).gather() == wanted
    assert wanted[0]["weights"] == wanted[1]["weights"]


def test_another_number_of_workers_goes_on_from_the_anchors(toy: Any, fit: Any, world: Any, tmp_path: Path) -> None:
    inner = {"type": "adamw", "lr": 0.01}
    recipe = toy(optimizer={"type": "diloco", "H": 5, "inner": inner, "compressor": TOPK}, model=MODEL)

    def half(rank: int) -> Any:
        def stop(session: Any, event: str) -> None:
            session.watch.requested = session.step >= 20

        return fit(recipe, fresh(tmp_path / "run"), hooks=[stop]).steps

    world(2, half).gather()
    summary = fit(recipe, tmp_path / "run", True)
    assert summary.steps == 75 and summary.final["test/loss"] < 0.7


@pytest.mark.parametrize("average", ["none", "uniform"])
def test_a_run_without_workers_learns_and_resumes(
    average: str, toy: Any, fit: Any, end_of: Any, tmp_path: Path
) -> None:
    recipe = recipe_of(toy, average=average, compressor={"type": "randk", "ratio": 0.2})
    wanted = end_of(recipe, fresh(tmp_path / "unbroken"))

    def stop(session: Any, event: str) -> None:
        session.watch.requested = session.step >= 23

    fit(recipe, fresh(tmp_path / "broken"), hooks=[stop])
    assert end_of(recipe, tmp_path / "broken", True) == wanted


def test_another_number_of_workers_goes_on(toy: Any, fit: Any, world: Any, tmp_path: Path) -> None:
    recipe = recipe_of(toy, momentum=0.9)

    def half(rank: int) -> Any:
        def stop(session: Any, event: str) -> None:
            session.watch.requested = session.step >= 23

        return fit(recipe, fresh(tmp_path / "run"), hooks=[stop]).steps

    world(2, half).gather()
    summary = fit(recipe, tmp_path / "run", True)
    assert summary.steps == 75 and summary.final["test/loss"] < 0.7


# ---------------------------------------------------------------------------------------------- what really travels


def exchange(
    comm: Comm, compressor: Any, collective: str, numel: int = 50_000, steps: int = 3
) -> tuple[Tensor, int, int]:
    """(weights after some steps, bytes that the communicator counts, bytes that the kernel counts) of one rank."""
    weight = nn.Parameter(torch.zeros(numel))
    optimizer = make("optimizers/ef_sgd", params=[weight], lr=0.1, compressor=compressor, collective=collective)
    optimizer.prepare(OptimizerRun(steps, comm, 3, lambda: torch.zeros(())))
    comm.barrier()
    before = acknowledged()
    for step in range(steps):
        generator = torch.Generator().manual_seed(100 * step + comm.rank)
        weight.grad = torch.randn(numel, generator=generator)
        optimizer.step()
    comm.barrier()
    return weight.detach(), comm.bytes_sent, acknowledged() - before


def acknowledged() -> int:
    """Bytes that the kernel sent over this process's TCP connections and that have arrived."""
    total = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if not stat.S_ISSOCK(entry.stat().st_mode):
                continue
            copy = os.dup(int(entry.name))
        except OSError:  # the listing's own descriptor, or a connection of another thread that was closed meanwhile
            continue
        with socket.socket(fileno=copy) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            total += struct.unpack_from("<Q", info, ACKED)[0]
    return total


WAYS = [
    (TOPK, "all_gather"),
    (TOPK, "two_phase"),
    ("signnorm", "all_gather"),
    ({"type": "randk", "ratio": 0.05, "shared": True, "value_dtype": "fp32"}, "all_reduce"),
    ({"type": "powersgd", "rank": 1, "min_numel": 1}, "all_reduce"),
]


@pytest.mark.parametrize(("compressor", "collective"), WAYS, ids=str)
def test_the_kernel_counts_what_was_announced_and_gloo_gives_what_the_simulation_gives(
    compressor: Any, collective: str, world: Any
) -> None:
    numel, steps = 50_000, 20

    def work(rank: int) -> Any:
        return exchange(TorchComm(), compressor, collective, numel, steps)

    simulated = SimulatedWorld(2).run(lambda comm: exchange(comm, compressor, collective, numel, steps)[0])
    for weights, counted, real in world(2, work).gather():
        if collective == "all_reduce":
            torch.testing.assert_close(weights, simulated[0], rtol=1e-6, atol=1e-6)
        else:
            assert torch.equal(weights, simulated[0])
        assert abs(real - counted) <= 0.05 * counted + 10_000
        if compressor != {"type": "powersgd", "rank": 1, "min_numel": 1}:  # a vector is sent as it is
            assert real < steps * numel * 4 / 3, "no collective carries as much as the gradient"


@pytest.mark.slow
@pytest.mark.parametrize(("compressor", "collective"), WAYS, ids=str)
def test_four_workers_over_gloo_give_what_the_simulation_gives(compressor: Any, collective: str, world: Any) -> None:
    simulated = SimulatedWorld(4).run(lambda comm: exchange(comm, compressor, collective)[0])
    for weights in world(4, lambda rank: exchange(TorchComm(), compressor, collective)[0]).gather():
        if collective == "all_reduce":
            torch.testing.assert_close(weights, simulated[0], rtol=1e-6, atol=1e-6)
        else:
            assert torch.equal(weights, simulated[0])
