"""The learning rate of the residuals."""

from __future__ import annotations

from typing import Literal

from raycipe.components.calibrations import _rates as rates
from raycipe.framework.contracts import Calibrated, Calibration, Evidence
from raycipe.framework.registry import register


@register
class Residual(Calibration):
    """omega = mean(w) / (sum_i (w_i (phi_i - g_i))^2 / (n - df)), with g from a first fit at the naive rate.

    df is the trace of the smoother. It is what functions take if the recipe is silent, with the robust covariance
    S (P + omega^2 J) S: the prior's part and the sampling part, whatever the noise.

    Args:
        shape: robust also replaces the covariance of the coefficients, plain leaves it S

    Reference:
        B. A. Shaby, The Open-Faced Sandwich Adjustment for MCMC Using Estimating Functions, JCGS 2014.

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: cate, prior: linear, calibration: residual}
    """

    def __init__(self, shape: Literal["plain", "robust"] = "robust") -> None:
        self.shape = shape

    def rate(self, evidence: Evidence) -> Calibrated:
        return rates.residual_rate(evidence)
