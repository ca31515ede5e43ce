"""The gradient of the batch."""

from __future__ import annotations

from torch import Tensor

from raycipe.framework.contracts import Estimate, GradientEstimator, Problem
from raycipe.framework.registry import register


@register
class Exact(GradientEstimator):
    """The gradients of the batch's mean in both players, by automatic differentiation.

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 0.02, gradients: exact}
    """

    def estimate(self, problem: Problem, w: Tensor, v: Tensor, players: str = "wv") -> Estimate:
        return Estimate(*problem.gradients(w, v))
