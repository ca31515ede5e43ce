"""A minimax problem on one batch, for optimizers that are tried without the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from raycipe.framework.comm import LocalComm
from raycipe.framework.contracts import Batch, Optimizer, Saddle, Split, Task
from raycipe.framework.training.feed import Step
from raycipe.framework.training.players import Players


class _Loop:
    """What `Players` asks of a session: one batch for ever, its gradients in the parameters' `.grad`."""

    def __init__(
        self, task: Task, model: Saddle, optimizer: Optimizer, batch: Batch, splits: Mapping[str, Split]
    ) -> None:
        self.task, self.model, self.optimizer, self.splits = task, model, optimizer, splits
        self.optimizer_comm, self.device, self.seed = LocalComm(), torch.device("cpu"), 0
        self.length, self.examples, self.step, self.warnings = SimpleNamespace(total_steps=100), 0, 0, list[str]()
        self.batch = batch
        self.exchange, self.gradients, self.feed = self, self, self
        self.current = self.next()

    def next(self) -> Step:
        count = len(self.batch["id"])
        return Step(0, count, count, self.batch["id"], [self.batch], [count])

    @property
    def gradient(self) -> Tensor:
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters])

    def again(self, step: Step) -> None:
        self.model.zero_grad()
        self.task.loss(self.model, self.batch).value.backward()  # type: ignore[no-untyped-call]

    def warn(self, text: str) -> None:
        self.warnings.append(text)


class OneBatch(Players):
    """`Players` over such a loop; `begin` starts step `number`, whose gradients stand in `.grad`."""

    def begin(self, number: int) -> None:
        loop: Any = self.session
        loop.step, loop.current = number, loop.next()


def stand_in(
    task: Task, model: nn.Module, optimizer: Optimizer, batch: Batch, splits: Mapping[str, Split]
) -> OneBatch | None:
    """The problem for a minimax task, None for another."""
    if not isinstance(model, Saddle):
        return None
    loop: Any = _Loop(task, model, optimizer, batch, splits)
    return OneBatch(loop)
