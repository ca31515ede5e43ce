"""A straight line."""

from __future__ import annotations

from typing import Annotated

from raycipe.components.schedules._warmup import progress, warmup_factor
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Schedule
from raycipe.framework.registry import register


@register
class Linear(Schedule):
    """A linear warm-up, then a straight line down to `floor` at the last step.

    factor(t) = 1 - (1 - floor) p, where p runs from 0 after the warm-up to 1 at the last step.

    Args:
        warmup: optimizer steps over which the rate rises to its full value; 0 for none
        floor: share of the full rate that is left at the last step

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: adam, lr: 1e-3, schedule: {type: linear, warmup: 20}}
    """

    def __init__(
        self, warmup: Annotated[int, Range(ge=0, le=10**9)] = 0, floor: Annotated[float, Range(ge=0, le=1)] = 0.0
    ) -> None:
        self.warmup = warmup
        self.floor = floor

    def factor(self, step: int, total_steps: int) -> float:
        rising = warmup_factor(step, self.warmup)
        return 1 - (1 - self.floor) * progress(step, total_steps, self.warmup) if rising is None else rising
