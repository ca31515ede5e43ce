"""The learning rate of a constant effect."""

from __future__ import annotations

from typing import Literal

from raycipe.components.calibrations import _rates as rates
from raycipe.framework.contracts import Calibrated, Calibration, Evidence
from raycipe.framework.registry import register


@register
class Naive(Calibration):
    """omega = mean(w) / Var(w (phi - theta)): one over the variance of the pseudo-outcome around a constant effect.

    For a scalar it is the sandwich rate. For a function it takes the effect's own variation for noise.

    Args:
        shape: robust also replaces the covariance of a function's coefficients by the robust one

    Reference:
        E. Javurek, D. Frauen, Y. Wang, S. Feuerriegel, Generalized Bayes for Causal Inference, 2026.

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: cate, prior: linear, calibration: naive}
    """

    def __init__(self, shape: Literal["plain", "robust"] = "plain") -> None:
        self.shape = shape

    def rate(self, evidence: Evidence) -> Calibrated:
        return rates.scalar_rate(evidence, "naive: one over the variance of the pseudo-outcome")
