"""One interface, three worlds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
import torch

from raycipe.framework.comm import Comm, CommTimeout, LocalComm, SimulatedWorld, TorchComm


def every_operation(comm: Comm) -> dict[str, Any]:
    """The results of all operations, with inputs that depend on the rank."""
    own = torch.arange(3.0) + 10 * comm.rank
    return {
        "sum": comm.all_reduce(own.clone()).tolist(),
        "mean": comm.all_reduce(own.clone(), "mean").tolist(),
        "max": comm.all_reduce(own.clone(), "max").tolist(),
        "min": comm.all_reduce(own.clone(), "min").tolist(),
        "gather": [part.tolist() for part in comm.all_gather(own)],
        "all_to_all": [part.tolist() for part in comm.all_to_all([own + to for to in range(comm.world_size)])],
        "broadcast": comm.broadcast(own.clone(), comm.world_size - 1).tolist(),
        "objects": comm.gather_objects({"rank": comm.rank}),
        "object": comm.broadcast_object(f"from {comm.rank}", comm.world_size - 1),
        "own group": comm.group().all_reduce(own.clone()).tolist(),
        "sent": comm.bytes_sent,
    }


def wanted(rank: int, world_size: int) -> dict[str, Any]:
    owns = [[value + 10.0 * r for value in range(3)] for r in range(world_size)]
    last = world_size - 1
    return {
        "sum": [sum(column) for column in zip(*owns, strict=True)],
        "mean": [sum(column) / world_size for column in zip(*owns, strict=True)],
        "max": owns[-1],
        "min": owns[0],
        "gather": owns,
        "all_to_all": [[value + rank for value in own] for own in owns],
        "broadcast": owns[-1],
        "objects": [{"rank": r} for r in range(world_size)],
        "object": f"from {last}",
        "own group": [sum(column) for column in zip(*owns, strict=True)],
        "sent": 4 * (2 * 12 * last // world_size) + 2 * 12 * last + (12 * last if rank == last else 0),
    }


def test_one_worker_alone_gets_its_own_values() -> None:
    assert every_operation(LocalComm()) == wanted(0, 1)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_a_simulated_world_computes_every_operation(world_size: int) -> None:
    found = SimulatedWorld(world_size).run(every_operation)
    assert found == [wanted(rank, world_size) for rank in range(world_size)]


def forked(world_size: int, work: Callable[[int], Any]) -> list[Any]:
    """`work(rank)` in processes over gloo."""
    context = torch.multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    meeting = f"file://{tempfile.mkdtemp()}/meeting"

    def child(rank: int) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world_size)
        results.put((rank, work(rank)))
        torch.distributed.destroy_process_group()
        os._exit(0)

    children = [context.Process(target=child, args=(rank,)) for rank in range(world_size)]
    for process in children:
        process.start()
    found = dict(results.get() for _ in children)
    for process in children:
        process.join()
    return [found[rank] for rank in range(world_size)]


def test_processes_over_gloo_agree_with_the_simulated_world() -> None:
    found = forked(3, lambda rank: every_operation(TorchComm()))
    assert found == SimulatedWorld(3).run(every_operation)


def test_operations_in_flight_finish_in_any_order() -> None:
    def work(comm: Comm) -> list[float]:
        first = comm.start_all_reduce(torch.tensor(1.0 + comm.rank))
        second = comm.start_all_reduce(torch.tensor(10.0))
        values = [float(second.wait()), float(first.wait()), float(first.wait())]
        assert comm.start_all_gather(torch.tensor(comm.rank)).wait() == list(range(comm.world_size))
        return values

    assert SimulatedWorld(2).run(work) == [[20.0, 3.0, 3.0]] * 2
    assert forked(2, lambda rank: work(TorchComm())) == [[20.0, 3.0, 3.0]] * 2


def late(comm: Comm) -> str:
    """Rank 1 never answers."""
    if comm.rank == 0:
        try:
            comm.all_reduce(torch.zeros(1), timeout_s=0.2)
        except CommTimeout as error:
            return str(error)
    return "did not wait"


def test_a_silent_rank_ends_a_wait_with_a_timeout() -> None:
    said = "no answer from the other workers within 0.2 s"
    assert SimulatedWorld(2).run(late) == [said, "did not wait"]

    def work(rank: int) -> str:
        import time

        answer = late(TorchComm())
        time.sleep(0.5 * rank)  # rank 1 must still be there when rank 0 gives up
        return answer

    assert forked(2, work) == [said, "did not wait"]


def test_the_first_failure_of_a_simulated_world_is_raised_and_ends_the_others() -> None:
    def work(comm: Comm) -> None:
        if comm.rank == 1:
            raise ZeroDivisionError("rank 1")
        comm.barrier()

    with pytest.raises(ZeroDivisionError, match="rank 1"):
        SimulatedWorld(3).run(work)


def test_ranks_that_call_different_operations_are_told() -> None:
    def work(comm: Comm) -> None:
        if comm.rank == 0:
            comm.all_reduce(torch.zeros(1))
        else:
            comm.all_gather(torch.zeros(1))

    with pytest.raises(RuntimeError, match="calls all_.* where another rank called all_"):
        SimulatedWorld(2).run(work)


def test_chunks_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="chunks: need 1 tensors of one shape"):
        LocalComm().all_to_all([torch.zeros(1), torch.zeros(2)])
    with pytest.raises(ValueError, match="world_size: must be at least 1, not 0"):
        SimulatedWorld(0)
