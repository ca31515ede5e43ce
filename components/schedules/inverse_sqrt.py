"""Decay with the inverse square root of the step."""

from __future__ import annotations

from typing import Annotated

from raycipe.components.schedules._warmup import warmup_factor
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Schedule
from raycipe.framework.registry import register


@register
class InverseSqrt(Schedule):
    """A linear warm-up, then a decay with the inverse square root of the step; the run's length plays no part.

    factor(t) = (t + 1) / warmup for t < warmup, then sqrt(warmup / (t + 1)): both are 1 at t + 1 = warmup.

    Args:
        warmup: optimizer steps over which the rate rises to its full value; the longer, the slower the decay after it

    Reference:
        A. Vaswani et al., Attention Is All You Need, NeurIPS 2017.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: adam, lr: 1e-3, schedule: {type: inverse_sqrt, warmup: 50}}
    """

    def __init__(self, warmup: Annotated[int, Range(ge=1, le=10**9)] = 100) -> None:
        self.warmup = warmup

    def factor(self, step: int, total_steps: int) -> float:
        rising = warmup_factor(step, self.warmup)
        return (self.warmup / (step + 1)) ** 0.5 if rising is None else rising
