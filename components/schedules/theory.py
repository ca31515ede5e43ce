"""The constant rate of convergence theorems."""

from __future__ import annotations

from raycipe.framework.arguments import Count
from raycipe.framework.contracts import Schedule
from raycipe.framework.registry import register


@register
class Theory(Schedule):
    """The constant factor 1 / sqrt(T) of a run of T steps: with lr = c the rate is c / sqrt(T), as theorems ask.

    Args:
        steps: T; null takes the length of the run

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 1.0, schedule: theory}
    """

    def __init__(self, steps: Count | None = None) -> None:
        self.steps = steps

    def factor(self, step: int, total_steps: int) -> float:
        return float((self.steps or max(1, total_steps)) ** -0.5)
