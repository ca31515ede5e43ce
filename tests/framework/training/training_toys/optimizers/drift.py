"""Local steps on every rank, averaged every few steps; the average arrives one step late if asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from raycipe.framework.contracts import Optimizer, OptimizerRun
from raycipe.framework.registry import register


@register
class Drift(Optimizer):
    """Local SGD: ranks drift apart for `every` steps, then take the mean as their common anchor.

    Args:
        lr: learning rate
        every: steps between exchanges
        late: steps between the start of an exchange and its use
    """

    exchanges = True
    local_weights = True

    def __init__(self, params: Iterable[Tensor], lr: float = 0.1, every: int = 5, late: int = 0) -> None:
        super().__init__(params, {"lr": lr})
        self.every, self.late, self.count, self.synced_at = every, late, 0, 0
        self.weights = [parameter for group in self.param_groups for parameter in group["params"]]
        self.anchor = [weight.detach().clone() for weight in self.weights]
        self.flight: tuple[int, list[Any]] | None = None

    def prepare(self, run: OptimizerRun) -> None:
        self.comm = run.comm

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for weight in self.weights:
            weight -= self.param_groups[0]["lr"] * weight.grad
        self.count += 1
        if self.count % self.every == 0:
            sent = [weight.detach().clone() for weight in self.weights]
            self.flight = (self.count + self.late, [self.comm.start_all_reduce(part, "mean") for part in sent])
        if self.flight and self.flight[0] <= self.count:
            self._arrive()

    @torch.no_grad()
    def _arrive(self) -> None:
        assert self.flight is not None
        due, pending = self.flight
        self.anchor = [part.wait() for part in pending]
        for weight, anchor in zip(self.weights, self.anchor, strict=True):
            weight.copy_(anchor)
        self.flight, self.synced_at = None, due

    @contextmanager
    def consensus(self) -> Iterator[None]:
        private = [weight.detach().clone() for weight in self.weights]
        with torch.no_grad():
            for weight, anchor in zip(self.weights, self.anchor, strict=True):
                weight.copy_(anchor)
        try:
            yield
        finally:
            with torch.no_grad():
                for weight, old in zip(self.weights, private, strict=True):
                    weight.copy_(old)

    def finish(self) -> None:
        if self.flight:
            self._arrive()
        with torch.no_grad():
            self.anchor = [self.comm.all_reduce(weight.detach().clone(), "mean") for weight in self.weights]
            for weight, anchor in zip(self.weights, self.anchor, strict=True):
                weight.copy_(anchor)
        self.synced_at = self.count

    def rank_state_dict(self) -> dict[str, Any]:
        flight = None if self.flight is None else [self.flight[0], [part.wait() for part in self.flight[1]]]
        return {"anchor": self.anchor, "count": self.count, "synced_at": self.synced_at, "flight": flight}

    def load_rank_state(self, mine: dict[str, Any] | None, all_ranks: list[dict[str, Any]]) -> None:
        from raycipe.framework.comm import Done

        state = mine or all_ranks[0]
        self.anchor, self.count, self.synced_at = state["anchor"], state["count"], state["synced_at"]
        if state["flight"] and mine:
            self.flight = (state["flight"][0], [Done(part) for part in state["flight"][1]])
