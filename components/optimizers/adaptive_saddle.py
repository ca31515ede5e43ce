"""Adam for two players."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from raycipe.components.optimizers._saddle import Averaging, SaddleOptimizer
from raycipe.framework.arguments import Fraction, NonNegative, Positive, default
from raycipe.framework.contracts import GradientEstimator, Point, Problem, Schedule
from raycipe.framework.registry import register


@register
class AdaptiveSaddle(SaddleOptimizer):
    """Descent-ascent with Adam's steps for each player; with `gradients: zeroth_order` and base amsgrad it is ZO-AdaMM.

    m <- b1 m + (1 - b1) g;  s <- b2 s + (1 - b2) g²;  d = (m / (1 - b1^t)) / (sqrt(s / (1 - b2^t)) + eps);
    w <- P(w - lr d_w), v <- P(v + lr_v d_v). amsgrad divides by the largest s so far.

    Args:
        lr: learning rate of w, about the largest change of an entry per step; the schedule scales it
        lr_v: learning rate of v; null takes lr
        base: adam, or amsgrad
        betas: b1 and b2, how much of the running means is kept per step
        eps: added to the denominator
        gradients: how gradients are obtained
        average: which average of the iterates is evaluated and saved: none, uniform, weighted by the learning rate, or
            suffix0.5, that of the second half
        schedule: how the rates change over the run; null keeps them

    Reference:
        X. Chen et al., ZO-AdaMM: Zeroth-Order Adaptive Momentum Method for Black-Box Optimization, NeurIPS 2019.

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: adaptive_saddle, lr: 0.01}
    """

    def __init__(
        self,
        params: Any,
        lr: NonNegative = 1e-3,
        lr_v: NonNegative | None = None,
        base: Literal["adam", "amsgrad"] = "adam",
        betas: tuple[Fraction, Fraction] = (0.9, 0.999),
        eps: Positive = 1e-8,
        gradients: GradientEstimator = default("exact"),
        average: Averaging = "none",
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(params, lr, lr_v, gradients, average, schedule)
        self.base = base
        self.betas = (betas[0], betas[1])
        self.eps = eps

    def advance(self, problem: Problem, w: Tensor, v: Tensor) -> Point:
        found = self.estimate(problem, w, v)
        self.kept["t"] = self.kept.get("t", 0) + 1
        return self.descend(problem, w, v, self._scaled("w", found.w), self._scaled("v", found.v))

    def _scaled(self, player: str, g: Tensor) -> Tensor:
        """Adam's direction d for one player."""
        (b1, b2), t = self.betas, self.kept["t"]
        m, s, largest = self.kept.get(player, [torch.zeros_like(g) for _ in range(3)])
        m = b1 * m + (1 - b1) * g
        s = b2 * s + (1 - b2) * g.square()
        largest = torch.maximum(largest, s)
        self.kept[player] = [m, s, largest]
        second = largest if self.base == "amsgrad" else s
        return (m / (1 - b1**t)) / ((second / (1 - b2**t)).sqrt() + self.eps)
