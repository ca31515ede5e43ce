"""No decay."""

from __future__ import annotations

from typing import Annotated

from raycipe.components.schedules._warmup import warmup_factor
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Schedule
from raycipe.framework.registry import register


@register
class Constant(Schedule):
    """The full learning rate throughout, after a linear warm-up.

    factor(t) = (t + 1) / warmup for t < warmup, then 1.

    Args:
        warmup: optimizer steps over which the rate rises to its full value; 0 for none

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: sgd, lr: 0.1, schedule: {type: constant, warmup: 20}}
    """

    def __init__(self, warmup: Annotated[int, Range(ge=0, le=10**9)] = 0) -> None:
        self.warmup = warmup

    def factor(self, step: int, total_steps: int) -> float:
        rising = warmup_factor(step, self.warmup)
        return 1.0 if rising is None else rising
