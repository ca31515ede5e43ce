"""Communication between the workers of a run, in one interface with three worlds: one worker, torch.distributed, and
a simulated world of threads in one process, with which an optimizer's maths is tested without processes.

Every rank issues the same operations in the same order. An operation started with a `start_*` method goes on while
the caller computes; `Pending.wait` gives its result.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Generic, Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")
Reduce = Literal["sum", "mean", "max", "min"]
OPS = {"sum": dist.ReduceOp.SUM, "mean": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}
POLL_S = 0.05  # how often a waiting simulated rank looks whether another one has failed


class CommTimeout(TimeoutError):
    """An operation did not end within its timeout. The group can't be used any more."""


class CommBroken(RuntimeError):
    """Another rank of a simulated world failed while this one waited for it."""


class Pending(ABC, Generic[T]):
    """An operation in flight."""

    @abstractmethod
    def wait(self, timeout_s: float | None = None) -> T:
        """Its result; the same at every call. Raises CommTimeout."""


class Done(Pending[T]):
    def __init__(self, value: T) -> None:
        self.value = value

    def wait(self, timeout_s: float | None = None) -> T:
        return self.value


class Comm(ABC):
    """A group of workers. `bytes_sent` counts what this rank puts on the wire: for an all-reduce of b bytes among W
    ranks 2 b (W - 1) / W (a ring), for an all-gather (W - 1) b, for an all-to-all all chunks but its own, for a
    broadcast (W - 1) b at the source; objects are not counted."""

    rank: int
    world_size: int
    bytes_sent: int

    @abstractmethod
    def start_all_reduce(self, tensor: Tensor, op: Reduce = "sum") -> Pending[Tensor]:
        """Reduces `tensor` in place over all ranks; equal bits everywhere."""

    @abstractmethod
    def start_all_gather(self, tensor: Tensor) -> Pending[list[Tensor]]:
        """Every rank's tensor in rank order; shapes and dtypes must be equal."""

    @abstractmethod
    def start_all_to_all(self, chunks: Sequence[Tensor]) -> Pending[list[Tensor]]:
        """`chunks[r]` goes to rank r; gives what every rank sent here, in rank order. All chunks have one shape."""

    @abstractmethod
    def start_broadcast(self, tensor: Tensor, source: int = 0) -> Pending[Tensor]:
        """Fills `tensor` in place with that of rank `source`."""

    @abstractmethod
    def gather_objects(self, value: T) -> list[T]:
        """Every rank's small picklable value, in rank order, on all ranks."""

    @abstractmethod
    def broadcast_object(self, value: T, source: int = 0) -> T:
        """The value of rank `source`, on all ranks."""

    @abstractmethod
    def barrier(self) -> None:
        """Returns once every rank has come here."""

    def all_reduce(self, tensor: Tensor, op: Reduce = "sum", timeout_s: float | None = None) -> Tensor:
        return self.start_all_reduce(tensor, op).wait(timeout_s)

    def all_gather(self, tensor: Tensor, timeout_s: float | None = None) -> list[Tensor]:
        return self.start_all_gather(tensor).wait(timeout_s)

    def all_to_all(self, chunks: Sequence[Tensor], timeout_s: float | None = None) -> list[Tensor]:
        return self.start_all_to_all(chunks).wait(timeout_s)

    def broadcast(self, tensor: Tensor, source: int = 0, timeout_s: float | None = None) -> Tensor:
        return self.start_broadcast(tensor, source).wait(timeout_s)

    def group(self) -> Comm:
        """A Comm of the same ranks whose operations never mix with this one's (an optimizer gets its own)."""
        return self

    def _count(self, kind: str, num_bytes: int, source: int = 0) -> None:
        others = self.world_size - 1
        if kind == "all_reduce":
            self.bytes_sent += 2 * num_bytes * others // self.world_size
        elif kind != "broadcast" or source == self.rank:
            self.bytes_sent += num_bytes * others

    def _check_chunks(self, chunks: Sequence[Tensor]) -> None:
        shapes = {(tuple(chunk.shape), chunk.dtype) for chunk in chunks}
        if len(chunks) != self.world_size or len(shapes) != 1:
            raise ValueError(f"chunks: need {self.world_size} tensors of one shape and dtype, not {shapes}")


class LocalComm(Comm):
    """One worker alone: nothing is sent."""

    def __init__(self) -> None:
        self.rank, self.world_size, self.bytes_sent = 0, 1, 0

    def start_all_reduce(self, tensor: Tensor, op: Reduce = "sum") -> Pending[Tensor]:
        return Done(tensor)

    def start_all_gather(self, tensor: Tensor) -> Pending[list[Tensor]]:
        return Done([tensor.clone()])

    def start_all_to_all(self, chunks: Sequence[Tensor]) -> Pending[list[Tensor]]:
        self._check_chunks(chunks)
        return Done([chunks[0].clone()])

    def start_broadcast(self, tensor: Tensor, source: int = 0) -> Pending[Tensor]:
        return Done(tensor)

    def gather_objects(self, value: T) -> list[T]:
        return [value]

    def broadcast_object(self, value: T, source: int = 0) -> T:
        return value

    def barrier(self) -> None:
        return


class _TorchPending(Pending[T]):
    def __init__(self, work: Any, finish: Callable[[], T]) -> None:
        self.work, self.finish = work, finish
        self.result: list[T] = []

    def wait(self, timeout_s: float | None = None) -> T:
        if not self.result:
            started = time.monotonic()
            try:
                if timeout_s is None:
                    self.work.wait()
                else:
                    self.work.wait(timedelta(seconds=timeout_s))
            except RuntimeError as error:
                if timeout_s is not None and time.monotonic() - started >= timeout_s:
                    raise CommTimeout(f"no answer from the other workers within {timeout_s:g} s") from error
                raise
            self.result.append(self.finish())
        return self.result[0]


class TorchComm(Comm):
    """The default torch.distributed world, in a process group of its own (collective: all ranks construct it)."""

    def __init__(self) -> None:
        self._group = dist.new_group()
        self.rank, self.world_size, self.bytes_sent = dist.get_rank(), dist.get_world_size(), 0

    def group(self) -> Comm:
        return TorchComm()

    def start_all_reduce(self, tensor: Tensor, op: Reduce = "sum") -> Pending[Tensor]:
        self._count("all_reduce", tensor.nbytes)
        work = dist.all_reduce(tensor, OPS[op], group=self._group, async_op=True)
        return _TorchPending(work, lambda: tensor.div_(self.world_size) if op == "mean" else tensor)

    def start_all_gather(self, tensor: Tensor) -> Pending[list[Tensor]]:
        self._count("all_gather", tensor.nbytes)
        out = [torch.empty_like(tensor) for _ in range(self.world_size)]
        return _TorchPending(dist.all_gather(out, tensor.contiguous(), group=self._group, async_op=True), lambda: out)

    def start_all_to_all(self, chunks: Sequence[Tensor]) -> Pending[list[Tensor]]:
        self._check_chunks(chunks)
        self._count("all_to_all", chunks[0].nbytes)
        sent = torch.stack(tuple(chunks))
        out = torch.empty_like(sent)
        work = dist.all_to_all_single(out, sent, group=self._group, async_op=True)
        return _TorchPending(work, lambda: list(out))

    def start_broadcast(self, tensor: Tensor, source: int = 0) -> Pending[Tensor]:
        self._count("broadcast", tensor.nbytes, source)
        return _TorchPending(dist.broadcast(tensor, source, group=self._group, async_op=True), lambda: tensor)

    def gather_objects(self, value: T) -> list[T]:
        out: list[Any] = [None] * self.world_size
        dist.all_gather_object(out, value, group=self._group)
        return out

    def broadcast_object(self, value: T, source: int = 0) -> T:
        out: list[Any] = [value]
        dist.broadcast_object_list(out, source, group=self._group)
        result: T = out[0]
        return result

    def barrier(self) -> None:
        dist.barrier(group=self._group)


class _Round:
    """One operation of a simulated world: what each rank brought, and how many have fetched the result."""

    def __init__(self) -> None:
        self.kind = ""
        self.brought: dict[int, Any] = {}
        self.fetched = 0


class Turns:
    """Whose turn it is in a simulated world: everybody's at once."""

    def begin(self, rank: int) -> None:
        """Returns when `rank` may compute."""

    def end(self, rank: int) -> None:
        """Called by `rank` when it waits for others, and at its end."""


class SimulatedWorld:
    """`world_size` ranks as threads of one process.

    `SimulatedWorld(4).run(work)` calls `work(comm)` on every rank and gives the results in rank order. The first
    failure ends the others' waiting and is raised. torch's global generator is shared by all ranks: draw from own ones.
    With `turns` one rank computes at a time, till it waits for the others.
    """

    def __init__(self, world_size: int, turns: Turns | None = None) -> None:
        if world_size < 1:
            raise ValueError(f"world_size: must be at least 1, not {world_size}")
        self.world_size = world_size
        self.turns = turns or Turns()
        self.failed = False
        self.changed = threading.Condition()
        self.rounds: dict[tuple[int, int], _Round] = {}

    def run(self, work: Callable[[Comm], T]) -> list[T]:
        results: dict[int, T] = {}
        errors: list[BaseException] = []

        def rank_work(rank: int) -> None:
            self.turns.begin(rank)
            try:
                results[rank] = work(SimulatedComm(self, rank))
            except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
                if not isinstance(error, CommBroken):
                    errors.append(error)
                with self.changed:
                    self.failed = True
                    self.changed.notify_all()
            finally:
                self.turns.end(rank)

        threads = [threading.Thread(target=rank_work, args=(rank,)) for rank in range(self.world_size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return [results[rank] for rank in range(self.world_size)]

    def bring(self, key: tuple[int, int], rank: int, kind: str, value: Any) -> None:
        with self.changed:
            entry = self.rounds.setdefault(key, _Round())
            if entry.kind not in ("", kind):
                self.failed = True
                raise RuntimeError(f"rank {rank} calls {kind} where another rank called {entry.kind}")
            entry.kind = kind
            entry.brought[rank] = value
            if len(entry.brought) == self.world_size:
                self.changed.notify_all()

    def fetch(self, key: tuple[int, int], rank: int, timeout_s: float | None) -> list[Any]:
        """What all ranks brought, in rank order."""
        if len(self.rounds[key].brought) < self.world_size:
            self.turns.end(rank)
            try:
                self._await(key, timeout_s)
            finally:
                self.turns.begin(rank)
        with self.changed:
            entry = self.rounds[key]
            entry.fetched += 1
            if entry.fetched == self.world_size:
                del self.rounds[key]
            return [entry.brought[rank] for rank in range(self.world_size)]

    def _await(self, key: tuple[int, int], timeout_s: float | None) -> None:
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self.changed:
            entry = self.rounds[key]
            while len(entry.brought) < self.world_size:
                if self.failed:
                    raise CommBroken("another rank failed")
                if end is not None and time.monotonic() >= end:
                    raise CommTimeout(f"no answer from the other workers within {timeout_s:g} s")
                self.changed.wait(POLL_S)


class _SimulatedPending(Pending[T]):
    def __init__(self, fetch: Callable[[float | None], list[Any]], finish: Callable[[list[Any]], T]) -> None:
        self.fetch, self.finish = fetch, finish
        self.result: list[T] = []

    def wait(self, timeout_s: float | None = None) -> T:
        if not self.result:
            self.result.append(self.finish(self.fetch(timeout_s)))
        return self.result[0]


class SimulatedComm(Comm):
    """One rank of a SimulatedWorld. Reductions are summed in rank order."""

    def __init__(self, world: SimulatedWorld, rank: int, group: int = 0) -> None:
        self.world, self.rank, self.world_size, self.bytes_sent = world, rank, world.world_size, 0
        self._group, self._groups, self._turn = group, 0, 0

    def group(self) -> Comm:
        self._groups += 1
        return SimulatedComm(self.world, self.rank, self._group * 100 + self._groups)

    def _start(self, kind: str, value: Any, finish: Callable[[list[Any]], T]) -> Pending[T]:
        key = (self._group, self._turn)
        self._turn += 1
        self.world.bring(key, self.rank, kind, value)
        return _SimulatedPending(lambda timeout_s: self.world.fetch(key, self.rank, timeout_s), finish)

    def start_all_reduce(self, tensor: Tensor, op: Reduce = "sum") -> Pending[Tensor]:
        self._count("all_reduce", tensor.nbytes)

        def finish(parts: list[Tensor]) -> Tensor:
            with torch.no_grad():
                tensor.copy_(_reduced(parts, op))
            return tensor

        return self._start(f"all_reduce {op}", tensor.detach().clone(), finish)

    def start_all_gather(self, tensor: Tensor) -> Pending[list[Tensor]]:
        self._count("all_gather", tensor.nbytes)
        return self._start("all_gather", tensor.detach().clone(), lambda parts: [part.clone() for part in parts])

    def start_all_to_all(self, chunks: Sequence[Tensor]) -> Pending[list[Tensor]]:
        self._check_chunks(chunks)
        self._count("all_to_all", chunks[0].nbytes)
        sent = [chunk.detach().clone() for chunk in chunks]
        return self._start("all_to_all", sent, lambda parts: [part[self.rank].clone() for part in parts])

    def start_broadcast(self, tensor: Tensor, source: int = 0) -> Pending[Tensor]:
        self._count("broadcast", tensor.nbytes, source)

        def finish(parts: list[Tensor]) -> Tensor:
            with torch.no_grad():
                tensor.copy_(parts[source])
            return tensor

        return self._start(f"broadcast {source}", tensor.detach().clone(), finish)

    def gather_objects(self, value: T) -> list[T]:
        return self._start("gather_objects", value, lambda parts: list(parts)).wait()

    def broadcast_object(self, value: T, source: int = 0) -> T:
        everyone: list[T] = self._start("broadcast_object", value, lambda parts: parts).wait()
        return everyone[source]

    def barrier(self) -> None:
        self._start("barrier", None, lambda parts: None).wait()


def _reduced(parts: list[Tensor], op: Reduce) -> Tensor:
    total = parts[0].clone()
    for part in parts[1:]:
        if op == "max":
            torch.maximum(total, part, out=total)
        elif op == "min":
            torch.minimum(total, part, out=total)
        else:
            total += part
    return total.div_(len(parts)) if op == "mean" else total
