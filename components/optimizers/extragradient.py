"""A look ahead before each step."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from raycipe.components.optimizers._saddle import Averaging, SaddleOptimizer
from raycipe.framework.arguments import NonNegative, Positive, default
from raycipe.framework.contracts import GradientEstimator, Point, Problem, Schedule
from raycipe.framework.registry import register


@register
class Extragradient(SaddleOptimizer):
    """Extragradient: steps with the gradients of a point ahead, which stops the circling of descent-ascent.

    x' = P(x - e F(x)), then x <- P(x - lr F(x')) from the first point, for x = (w, v) and F = (g_w, -g_v). Two
    gradients a step.

    Args:
        lr: learning rate of w; the schedule scales it
        lr_v: learning rate of v; null takes lr
        lr_extrapolate: learning rate of the look ahead of w, v's in the same ratio to its own; null takes lr
        same_sample: both gradients on one batch; false draws a fresh one for the second
        gradients: how gradients are obtained
        average: which average of the iterates is evaluated and saved: none, uniform, weighted by the learning rate, or
            suffix0.5, that of the second half
        schedule: how the rates change over the run; null keeps them

    Reference:
        G. M. Korpelevich, The Extragradient Method for Finding Saddle Points and Other Problems, Matecon 12, 1976.

    Recipe:
        data: {type: player_noise, dim: 2, scale: 0.1}
        model: {type: point, start: 1.0}
        task: {type: bilinear, mu_w: 0.2, mu_v: 0.2}
        optimizer: {type: extragradient, lr: 0.1}
    """

    def __init__(
        self,
        params: Any,
        lr: NonNegative = 1e-2,
        lr_v: NonNegative | None = None,
        lr_extrapolate: Positive | None = None,
        same_sample: bool = True,
        gradients: GradientEstimator = default("exact"),
        average: Averaging = "uniform",
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(params, lr, lr_v, gradients, average, schedule)
        self.ahead = 1.0 if lr_extrapolate is None or lr == 0 else lr_extrapolate / lr
        self.same_sample = same_sample

    def advance(self, problem: Problem, w: Tensor, v: Tensor) -> Point:
        here = self.estimate(problem, w, v)
        half = self.descend(problem, w, v, self.ahead * here.w, self.ahead * here.v)
        if not self.same_sample:
            problem.draw()
        there = self.estimate(problem, *half)
        return self.descend(problem, w, v, there.w, there.v)
