"""Optimistic descent-ascent."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from raycipe.components.optimizers._saddle import Averaging, SaddleOptimizer
from raycipe.framework.arguments import NonNegative, default
from raycipe.framework.contracts import GradientEstimator, Point, Problem, Schedule
from raycipe.framework.registry import register


@register
class Ogda(SaddleOptimizer):
    """Optimistic gradient descent-ascent: extrapolates the gradient from the last two, one evaluation a step.

    w <- P(w - lr (2 g_w,t - g_w,t-1)), v <- P(v + lr_v (2 g_v,t - g_v,t-1)); g_-1 = g_0.

    Args:
        lr: learning rate of w; the schedule scales it
        lr_v: learning rate of v; null takes lr
        gradients: how gradients are obtained
        average: which average of the iterates is evaluated and saved: none, uniform, weighted by the learning rate, or
            suffix0.5, that of the second half
        schedule: how the rates change over the run; null keeps them

    Reference:
        C. Daskalakis, A. Ilyas, V. Syrgkanis, H. Zeng, Training GANs with Optimism, ICLR 2018.

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: ogda, lr: 0.005}
    """

    def __init__(
        self,
        params: Any,
        lr: NonNegative = 1e-2,
        lr_v: NonNegative | None = None,
        gradients: GradientEstimator = default("exact"),
        average: Averaging = "uniform",
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(params, lr, lr_v, gradients, average, schedule)

    def advance(self, problem: Problem, w: Tensor, v: Tensor) -> Point:
        now = self.estimate(problem, w, v)
        last_w, last_v = self.kept.get("last", [now.w, now.v])
        self.kept["last"] = [now.w, now.v]
        return self.descend(problem, w, v, 2 * now.w - last_w, 2 * now.v - last_v)
