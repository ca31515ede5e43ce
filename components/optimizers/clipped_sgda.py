"""Descent-ascent with clipped gradients."""

from __future__ import annotations

from typing import Any, Literal

from raycipe.components.gradients.clipped import Clipped
from raycipe.components.gradients.exact import Exact
from raycipe.components.optimizers._saddle import Averaging
from raycipe.components.optimizers.sgda import Sgda
from raycipe.framework.arguments import NonNegative, Positive
from raycipe.framework.contracts import Schedule
from raycipe.framework.registry import register


@register
class ClippedSgda(Sgda):
    """Stochastic gradient descent-ascent with clipped gradients: short for `sgda` with `gradients: clipped`.

    w <- P(w - lr clip(g_w)), v <- P(v + lr_v clip(g_v)), clip(g) = g min(1, tau / |g|).

    Args:
        lr: learning rate of w; the schedule scales it
        lr_v: learning rate of v; null takes lr
        tau: length at which gradients are cut; auto takes sigma sqrt(n), sigma probed at the start
        scope: joint: both players as one vector; player: each by itself; sample: each example's, before the mean
        average: which average of the iterates is evaluated and saved: none, uniform, weighted by the learning rate, or
            suffix0.5, that of the second half
        schedule: how the rates change over the run; null keeps them

    Reference:
        E. Gorbunov et al., Clipped Stochastic Methods for Variational Inequalities with Heavy-Tailed Noise, NeurIPS
        2022.

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: clipped_sgda, lr: 0.02, tau: 1.0}
    """

    def __init__(
        self,
        params: Any,
        lr: NonNegative = 1e-2,
        lr_v: NonNegative | None = None,
        tau: Positive | Literal["auto"] = "auto",
        scope: Literal["joint", "player", "sample"] = "player",
        average: Averaging = "uniform",
        schedule: Schedule | None = None,
    ) -> None:
        gradients = Clipped(tau, scope, Exact())
        super().__init__(params, lr, lr_v, gradients=gradients, average=average, schedule=schedule)
