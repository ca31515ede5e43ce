"""Stochastic gradient descent-ascent."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from raycipe.components.optimizers._saddle import Averaging, SaddleOptimizer
from raycipe.framework.arguments import Count, NonNegative, default
from raycipe.framework.contracts import GradientEstimator, Point, Problem, Schedule
from raycipe.framework.registry import register


@register
class Sgda(SaddleOptimizer):
    """Stochastic gradient descent-ascent for min over w, max over v, with any estimator of the gradient.

    w <- P(w - lr g_w), v <- P(v + lr_v g_v), both gradients at the same point (simultaneous); P keeps the players in
    the task's bounds. On a bilinear function the last iterate runs away, and the average converges only with bounds.

    Args:
        lr: learning rate of w; the schedule scales it
        lr_v: learning rate of v; null takes lr
        order: simultaneous, or alternating: v moves after w, at the new w
        v_steps: steps of v before each step of w; beyond 1, each of them and that of w sees a fresh batch
        gradients: how gradients are obtained
        average: which average of the iterates is evaluated and saved: none, uniform, weighted by the learning rate, or
            suffix0.5, that of the second half
        schedule: how the rates change over the run; null keeps them

    Reference:
        Y. Lei, Z. Yang, T. Yang, Y. Ying, Stability and Generalization of Stochastic Gradient Methods for Minimax
        Problems, ICML 2021.

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 0.02, average: uniform}
    """

    def __init__(
        self,
        params: Any,
        lr: NonNegative = 1e-2,
        lr_v: NonNegative | None = None,
        order: Literal["simultaneous", "alternating"] = "simultaneous",
        v_steps: Count = 1,
        gradients: GradientEstimator = default("exact"),
        average: Averaging = "uniform",
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(params, lr, lr_v, gradients, average, schedule)
        self.order = order
        self.v_steps = v_steps

    def advance(self, problem: Problem, w: Tensor, v: Tensor) -> Point:
        if self.v_steps > 1:
            return self._descend_after_ascents(problem, w, v)
        if self.order == "alternating":
            w, _ = problem.project(w - self.rate("min") * self.estimate(problem, w, v, "w").w, v)
            return problem.project(w, v + self.rate("max") * self.estimate(problem, w, v, "v").v)
        found = self.estimate(problem, w, v)
        return self.descend(problem, w, v, found.w, found.v)

    def _descend_after_ascents(self, problem: Problem, w: Tensor, v: Tensor) -> Point:
        for _ in range(self.v_steps):
            _, v = problem.project(w, v + self.rate("max") * self.estimate(problem, w, v, "v").v)
            problem.draw()
        return problem.project(w - self.rate("min") * self.estimate(problem, w, v, "w").w, v)

    def cautions(self, problem: Problem) -> list[str]:
        task = getattr(problem, "task", None)
        found = super().cautions(problem)
        if task is not None and not task.strongly_concave() and self.order == "simultaneous":
            words = "the task is not strongly concave in v: the last iterate of descent-ascent may circle or run away"
            found.append(f"{words}; look at an average, or take optimizer: extragradient")
        return found
