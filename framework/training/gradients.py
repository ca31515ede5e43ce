"""The forward and backward passes of one optimizer step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from raycipe.framework.comm import Comm
from raycipe.framework.contracts import Loss, Task
from raycipe.framework.training.exchange import Exchange
from raycipe.framework.training.feed import Step
from raycipe.framework.training.precision import Precision
from raycipe.framework.training.rows import Interval


class Gradients:
    """Fills the parameters' gradients with those of a step's batches.

    Args:
        model: what the task calls (wrapped, compiled).
        checks_loss: look at each loss at once; on a GPU that would wait for the device.
    """

    def __init__(
        self, task: Task, model: nn.Module, exchange: Exchange, precision: Precision, comm: Comm, checks_loss: bool
    ) -> None:
        self.task, self.model, self.exchange, self.precision, self.comm = task, model, exchange, precision, comm
        self.checks_loss = checks_loss

    def compute(self, step: Step, number: int, interval: Interval, scored: bool) -> bool:
        """All micro-batches of step `number`; its losses go into `interval`. True if one is seen not to be finite."""
        bad = False
        losses: list[Tensor] = []
        weights: list[Any] = []
        for place, batch in enumerate(step.batches):
            loss, count = self._one(step, place, self.precision.scale)
            if not count:
                continue
            weight = count if loss.weight is None else loss.weight.detach()
            losses.append(loss.value.detach())
            weights.append(weight)
            if self.checks_loss and not math.isfinite(loss.value.item()):
                bad = True
            if scored:
                scores = self.task.scores(loss.outputs, batch)
                if bad:  # every rank must know the names
                    scores, weight = {name: torch.zeros_like(score) for name, score in scores.items()}, 0
                interval.add_scores(scores, weight)
        if len(losses) == 1:
            interval.add(losses[0], weights[0], number, step.ids)
        elif losses:
            whole = sum(weights)
            parts = [loss * (weight / whole) for loss, weight in zip(losses, weights, strict=True)]
            interval.add(torch.stack(parts).sum(), whole, number, step.ids)
        return bad

    def again(self, step: Step) -> Tensor:
        """The gradients of the same batches once more, exchanged; gives the loss (over all ranks, unless gradients
        are this rank's own)."""
        self.exchange.zero()
        total = self._total(step)
        value = torch.zeros((), device=self._device)
        for place in range(len(step.batches)):
            loss, count = self._one(step, place, None)
            value = value + loss.value.detach() * (count / max(total, 1))
        self.exchange.finish()
        return value if self.exchange.local_mean else self.comm.all_reduce(value)

    def _one(self, step: Step, place: int, scale: Callable[[Tensor], Tensor] | None) -> tuple[Loss, int]:
        """One micro-batch; gives its loss and how many of its examples count."""
        batch, count = step.batches[place], step.counts[place]
        with self.exchange.sync(place == len(step.batches) - 1):
            with self.precision.autocast():
                loss = self.task.loss(self.model, batch)
            self.exchange.backward(loss, count, self._total(step), scale)
        return loss, count

    def _total(self, step: Step) -> int:
        return step.own if self.exchange.local_mean else step.size

    @property
    def _device(self) -> torch.device:
        return self.exchange.parameters[0].device


class Losses(Gradients):
    """For optimizers that use no gradients: the losses alone."""

    def _one(self, step: Step, place: int, scale: Callable[[Tensor], Tensor] | None) -> tuple[Loss, int]:
        with torch.no_grad(), self.precision.autocast():
            return self.task.loss(self.model, step.batches[place]), step.counts[place]
