"""A learning rate by hand."""

from __future__ import annotations

from typing import Literal

from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Calibrated, Calibration, Evidence
from raycipe.framework.registry import register


@register
class Fixed(Calibration):
    """The learning rate as given, in units of one over the loss: larger values trust the data more.

    Args:
        omega: the rate; 1 makes the loss a log likelihood
        shape: robust also replaces the covariance of a function's coefficients by the robust one

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, calibration: {type: fixed, omega: 0.2}}
    """

    def __init__(self, omega: Positive = 1.0, shape: Literal["plain", "robust"] = "plain") -> None:
        self.omega = omega
        self.shape = shape

    def rate(self, evidence: Evidence) -> Calibrated:
        return Calibrated(self.omega, "as given")
