"""What a round of local steps consists of: the outer step, its rates, and the parts that are exchanged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import torch
from torch import Tensor

from raycipe.components.optimizers._fragments import Fragment
from raycipe.components.optimizers._wire import Sent
from raycipe.framework.arguments import Default, Range


class Outer(TypedDict, total=False):
    """The step that all workers take together.

    Args:
        lr: rate at which the common weights follow the mean of what the workers moved; 1 takes it whole
        momentum: share of the last outer step that is kept
        nesterov: look ahead along the momentum
    """

    lr: Annotated[float, Range(ge=0), Default(0.7)]
    momentum: Annotated[float, Range(ge=0, lt=1), Default(0.9)]
    nesterov: Annotated[bool, Default(True)]


class Theory(TypedDict, total=False):
    """Rates of the theory for convex losses: inner c / (H sqrt(T)), outer sqrt(M H), no momentum.

    Args:
        c: factor of the inner rate
        rounds: T; null takes the run's steps / H
        L: largest curvature of the mean loss; with R2 given, rates that must diverge are refused
        R2: mean of |x|² over examples (0.25 times it for the logistic loss)
    """

    c: Annotated[float, Range(gt=0), Default(4.0)]
    rounds: Annotated[int | None, Range(ge=1), Default(None)]
    L: Annotated[float | None, Range(gt=0), Default(None)]
    R2: Annotated[float | None, Range(gt=0), Default(None)]


@dataclass
class Flight:
    """An exchange that has begun and is applied at step `due`."""

    due: int
    is_finite: bool
    local: Tensor | None  # this worker's weights when it began, for `mix: add_local`
    sent: Sent | None = None
    total: Tensor | None = None  # the mean of what all sent, once it has arrived
    live: float = 0.0

    def wait(self, like: Tensor) -> Tensor:
        if self.total is None:
            assert self.sent is not None
            self.total = torch.zeros_like(like)
            self.live = self.sent.wait(self.total)
        return self.total


def outer_step_(anchor: Tensor, buffer: Tensor, total: Tensor, lr: float, momentum: float, nesterov: bool) -> None:
    """b <- mu b + u; a <- a - lr (u + mu b), without nesterov a - lr b: torch's SGD with u as gradient.

    Args:
        anchor: a, changed in place.
        buffer: b, changed in place.
        total: u, the mean of anchor minus weights over workers.
    """
    buffer.mul_(momentum).add_(total)
    anchor.sub_(total.add(buffer, alpha=momentum) if nesterov else buffer, alpha=lr)


def theory_rates(c: float, workers: int, H: int, rounds: int) -> tuple[float, float]:
    """(inner, outer): c / (H sqrt(T)) and sqrt(M H), so that a round is a step of c sqrt(M H / T) on M H examples."""
    return c / (H * math.sqrt(rounds)), math.sqrt(workers * H)


def divided(groups: Sequence[dict[str, Any]], count: int, pattern: str) -> list[Fragment]:
    """All parameters in `count` fragments: every count-th one, or runs of about equal size."""
    parameters = [parameter for group in groups for parameter in group["params"]]
    if pattern == "strided":
        runs = [parameters[first::count] for first in range(count)]
    else:
        runs = sequential(parameters, count)
    return [Fragment(run, {}) for run in runs]


def sequential(parameters: Sequence[Tensor], count: int) -> list[list[Tensor]]:
    """Runs in order, none empty, each ended where its share of all entries is reached."""
    whole, done = sum(parameter.numel() for parameter in parameters), 0
    runs: list[list[Tensor]] = [[]]
    for place, parameter in enumerate(parameters):
        left = len(parameters) - place
        missing = count - len(runs)
        if runs[-1] and missing and (done >= whole * len(runs) / count or left <= missing):
            runs.append([])
        runs[-1].append(parameter)
        done += parameter.numel()
    return runs
