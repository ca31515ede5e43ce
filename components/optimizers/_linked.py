"""The exchanges of an optimizer on a link: how long they take on it, and how long the run waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from raycipe.framework.comm import Comm, Pending, Reduce
from raycipe.framework.contracts import Link
from raycipe.framework.streams import key

T = TypeVar("T")
TOTALS = ("exchanges", "hops", "wait_seconds", "link_seconds")


class LinkedComm(Comm):
    """A Comm whose exchanges take at least the time of a link, from their start to their result.

    The link is busy with one exchange at a time. Where it sleeps, the run waits; else a clock of its own runs ahead of
    the real one, by `totals["link_seconds"]`; `wait_seconds` are real ones. Objects and barriers take no time.
    """

    def __init__(
        self, comm: Comm, link: Link, seed: int, now: Callable[[], float] = time.perf_counter, sleep: Any = time.sleep
    ) -> None:
        self.comm, self.link, self._now, self._sleep = comm, link, now, sleep
        self.rank, self.world_size, self.bytes_sent = comm.rank, comm.world_size, comm.bytes_sent
        self.totals = dict.fromkeys(TOTALS, 0.0)
        self._chances = np.random.default_rng(key(seed, "link"))  # the same on all ranks
        self._free_at = 0.0

    def now(self) -> float:
        """Seconds on the run's clock: the real one and, on a link that is only counted, what was not waited for."""
        return self._now() + (0.0 if self.link.sleeps else self.totals["link_seconds"])

    def stats(self) -> dict[str, Tensor | float]:
        return {f"comm/{name}": total for name, total in self.totals.items()}

    def _on_link(self, start: Callable[[], Pending[T]], hops: int) -> Pending[T]:
        if self.world_size == 1:
            return start()
        pending = start()
        num_bytes, self.bytes_sent = self.comm.bytes_sent - self.bytes_sent, self.comm.bytes_sent
        self._free_at = max(self.now(), self._free_at) + self.link.seconds(num_bytes, hops, self._chances.random())
        self.totals["exchanges"] += 1
        self.totals["hops"] += hops
        return _Arriving(pending, self, self._free_at)

    def measured(self, wait: Callable[[], T], at: float) -> T:
        """The result of `wait`, not before `at` on the run's clock."""
        began = self._now()
        result = wait()
        self._arrived(at)
        self.totals["wait_seconds"] += self._now() - began
        return result

    def _arrived(self, at: float) -> None:
        late = at - self.now()
        if late > 0:
            if self.link.sleeps:
                self._sleep(late)
            self.totals["link_seconds"] += late

    # ------------------------------------------------------------------------------------------ exchanges

    def start_all_reduce(self, tensor: Tensor, op: Reduce = "sum") -> Pending[Tensor]:
        return self._on_link(lambda: self.comm.start_all_reduce(tensor, op), 2 * (self.world_size - 1))

    def start_all_gather(self, tensor: Tensor) -> Pending[list[Tensor]]:
        return self._on_link(lambda: self.comm.start_all_gather(tensor), self.world_size - 1)

    def start_all_to_all(self, chunks: Sequence[Tensor]) -> Pending[list[Tensor]]:
        return self._on_link(lambda: self.comm.start_all_to_all(chunks), self.world_size - 1)

    def start_broadcast(self, tensor: Tensor, source: int = 0) -> Pending[Tensor]:
        return self._on_link(lambda: self.comm.start_broadcast(tensor, source), self.world_size - 1)

    def group(self) -> Comm:
        # Comm's contract wants the method; a group of a link would share its clock, so that waits counted twice.
        raise NotImplementedError("an optimizer has one link: take the group before it")

    def gather_objects(self, value: T) -> list[T]:
        return self.comm.gather_objects(value)

    def broadcast_object(self, value: T, source: int = 0) -> T:
        return self.comm.broadcast_object(value, source)

    def barrier(self) -> None:
        self.comm.barrier()


class _Arriving(Pending[T]):
    """A result that is there when the wire has brought it and the link's time is over."""

    def __init__(self, pending: Pending[T], comm: LinkedComm, at: float) -> None:
        self.pending, self.comm, self.at = pending, comm, at
        self.is_here = False

    def wait(self, timeout_s: float | None = None) -> T:
        if self.is_here:
            return self.pending.wait(timeout_s)
        result = self.comm.measured(lambda: self.pending.wait(timeout_s), self.at)
        self.is_here = True
        return result


def on_link(comm: Comm, link: Link | None, seed: int) -> Comm:
    """The communicator, on the link if there is one."""
    return comm if link is None else LinkedComm(comm, link, seed)


def link_stats(comm: Comm | None) -> dict[str, Tensor | float]:
    """What a link tells the log; nothing without one."""
    return comm.stats() if isinstance(comm, LinkedComm) else {}
