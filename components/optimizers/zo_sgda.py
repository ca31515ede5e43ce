"""Descent-ascent from values alone."""

from __future__ import annotations

from typing import Any, Literal

from raycipe.components.gradients.zeroth_order import ZerothOrder
from raycipe.components.optimizers._saddle import Averaging
from raycipe.components.optimizers.sgda import Sgda
from raycipe.framework.arguments import Count, NonNegative, Positive
from raycipe.framework.contracts import Schedule
from raycipe.framework.registry import register


@register
class ZoSgda(Sgda):
    """Stochastic gradient descent-ascent from values alone: short for `sgda` with `gradients: zeroth_order`.

    w <- P(w - lr g_w), v <- P(v + lr_v g_v), g = (1/K) sum_k [F(x + mu u_k) - F(x - mu u_k)] / (2 mu) u_k.

    Args:
        lr: learning rate of w; the schedule scales it
        lr_v: learning rate of v; null takes lr
        points: K, directions per step and player; the variance falls as d/K
        scheme: central: 2K evaluations a player; forward: K + 1
        direction: what the u_k are drawn from
        mu: length of the step; auto takes the least that rounding and theory allow
        split: what several workers share: the directions, or the examples
        average: which average of the iterates is evaluated and saved: none, uniform, weighted by the learning rate, or
            suffix0.5, that of the second half
        schedule: how the rates change over the run; null keeps them

    Reference:
        S. Liu et al., Min-Max Optimization without Gradients: Convergence and Applications to Black-Box Evasion and
        Poisoning Attacks, ICML 2020.

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: zo_sgda, lr: 0.02, points: 16}
    """

    def __init__(
        self,
        params: Any,
        lr: NonNegative = 1e-2,
        lr_v: NonNegative | None = None,
        points: Count = 16,
        scheme: Literal["central", "forward"] = "central",
        direction: Literal["gauss", "sphere", "rademacher", "coordinate"] = "gauss",
        mu: Positive | Literal["auto"] = "auto",
        split: Literal["directions", "data"] = "directions",
        average: Averaging = "uniform",
        schedule: Schedule | None = None,
    ) -> None:
        gradients = ZerothOrder(points, scheme, direction, mu, split=split)
        super().__init__(params, lr, lr_v, gradients=gradients, average=average, schedule=schedule)
