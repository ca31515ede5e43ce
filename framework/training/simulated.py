"""Many workers in one process, one after the other: the maths of a run of any size on any machine, bit for bit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from raycipe.framework.comm import Comm, SimulatedWorld, Turns
from raycipe.framework.training.precision import machine, threads_of
from raycipe.framework.training.state import capture_rng, restore_rng

T = TypeVar("T")


class OneAtATime(Turns):
    """One rank computes till it waits for others; each has random generators of its own, as if it were a process."""

    def __init__(self) -> None:
        self.baton = threading.Lock()
        self.states: dict[int, Any] = {}

    def begin(self, rank: int) -> None:
        self.baton.acquire()
        if rank in self.states:
            restore_rng(self.states[rank])

    def end(self, rank: int) -> None:
        self.states[rank] = capture_rng()
        self.baton.release()


def run_simulated(recipe: Any, work: Callable[[Comm], T]) -> T:
    """`work` on each of `resources.simulated_workers` ranks; gives rank 0's answer."""
    import torch

    workers = int(recipe["resources"]["simulated_workers"])
    deterministic = (recipe.get("train") or {}).get("deterministic", True)
    with machine(threads_of(recipe), deterministic, torch.device("cpu")):  # entered and left by the ranks in any order
        return SimulatedWorld(workers, OneAtATime()).run(work)[0]


def simulates(recipe: Any) -> bool:
    """Whether a recipe's workers are simulated."""
    return ((recipe.get("resources") or {}).get("simulated_workers") or 1) > 1
