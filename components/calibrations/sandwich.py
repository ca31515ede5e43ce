"""The learning rate whose posterior has the sandwich variance."""

from __future__ import annotations

from typing import Literal

from raycipe.components.calibrations import _rates as rates
from raycipe.framework.contracts import Calibrated, Calibration, Evidence
from raycipe.framework.registry import register


@register
class Sandwich(Calibration):
    """omega = H / J for a scalar: its posterior with a flat prior has the sandwich variance J / (n H^2).

    H is the mean curvature of the loss and J the variance of its scores, by clusters where the data has groups. For a
    function, omega makes the mean pointwise variance that of the robust covariance S (P + omega^2 J) S.

    Args:
        shape: robust also replaces the covariance of a function's coefficients by the robust one

    Reference:
        B. A. Shaby, The Open-Faced Sandwich Adjustment for MCMC Using Estimating Functions, JCGS 2014.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, calibration: sandwich}
    """

    def __init__(self, shape: Literal["plain", "robust"] = "plain") -> None:
        self.shape = shape

    def rate(self, evidence: Evidence) -> Calibrated:
        if not evidence.is_function:
            return rates.scalar_rate(evidence, "sandwich: H / J")
        start = rates.residual_rate(evidence)
        problem = evidence.problem.at(start.omega)
        _, _, robust = rates.robust_covariance(problem, evidence.groups)
        target = float(rates.pointwise_variance(problem.basis, robust).mean())
        return Calibrated(rates.match_variance(problem, target, start.omega), "sandwich: mean pointwise variance")
