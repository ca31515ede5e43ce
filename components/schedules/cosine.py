"""Half a cosine wave."""

from __future__ import annotations

import math
from typing import Annotated

from raycipe.components.schedules._warmup import progress, warmup_factor
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Schedule
from raycipe.framework.registry import register


@register
class Cosine(Schedule):
    """A linear warm-up, then half a cosine wave down to `floor` at the last step.

    factor(t) = floor + (1 - floor) (1 + cos(pi p)) / 2, where p runs from 0 after the warm-up to 1 at the last step.

    Args:
        warmup: optimizer steps over which the rate rises to its full value; 0 for none
        floor: share of the full rate that is left at the last step

    Reference:
        I. Loshchilov, F. Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, ICLR 2017 (without restarts).

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: sgd, lr: 0.1, schedule: {type: cosine, warmup: 20, floor: 0.01}}
    """

    def __init__(
        self, warmup: Annotated[int, Range(ge=0, le=10**9)] = 0, floor: Annotated[float, Range(ge=0, le=1)] = 0.0
    ) -> None:
        self.warmup = warmup
        self.floor = floor

    def factor(self, step: int, total_steps: int) -> float:
        rising = warmup_factor(step, self.warmup)
        if rising is not None:
            return rising
        wave = 0.5 * (1 + math.cos(math.pi * progress(step, total_steps, self.warmup)))
        return self.floor + (1 - self.floor) * wave
