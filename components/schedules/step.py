"""Drops at given points of the run."""

from __future__ import annotations

from typing import Annotated

from raycipe.components.schedules._warmup import warmup_factor
from raycipe.framework.arguments import Length, Range, Share
from raycipe.framework.contracts import Schedule
from raycipe.framework.registry import register


@register
class Step(Schedule):
    """A linear warm-up, then a drop by `gamma` at each of the given points of the run.

    factor(t) = gamma ^ (number of entries of `at` with t >= entry · total_steps).

    Args:
        at: where the rate drops, as shares of the run's steps
        gamma: what the rate is multiplied by at each drop
        warmup: optimizer steps over which the rate rises to its full value; 0 for none

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: sgd, lr: 0.1, schedule: {type: step, at: [0.5, 0.75], gamma: 0.1}}
    """

    def __init__(
        self,
        at: Annotated[list[Annotated[float, Range(gt=0, lt=1)]], Length(1, 100)] = [0.5, 0.75],  # noqa: B006 (only read)
        gamma: Share = 0.1,
        warmup: Annotated[int, Range(ge=0, le=10**9)] = 0,
    ) -> None:
        self.at = at
        self.gamma = gamma
        self.warmup = warmup

    def factor(self, step: int, total_steps: int) -> float:
        rising = warmup_factor(step, self.warmup)
        if rising is not None:
            return rising
        return self.gamma ** sum(step >= share * total_steps for share in self.at)
