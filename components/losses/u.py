"""The U-loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from raycipe.components.losses._rows import Quadratic, residuals
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import CausalLoss, RowLoss, Sample
from raycipe.framework.registry import register


@register
class U(CausalLoss):
    """The U-loss (phi - g)^2 / 2 with phi = r_Y / r_A: the R-loss without its weights, for comparison only.

    Rows whose treatment was almost certain have huge pseudo-outcomes, so it is unstable.

    Args:
        clip: propensities are kept within [clip, 1 - clip], which bounds the quotient

    Reference:
        S. R. Künzel, J. S. Sekhon, P. J. Bickel, B. Yu, Metalearners for Estimating Heterogeneous Treatment Effects
        Using Machine Learning, PNAS 2019.

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: cate, loss: u, prior: linear, calibration: residual}
    """

    def __init__(self, clip: Annotated[float, Range(gt=0, lt=0.5)] = 0.05) -> None:
        self.clip = clip

    def row_loss(self, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        r_y, r_a = residuals(sample.y, sample.treatment, nuisances)
        return Quadratic(np.ones(len(r_y)), r_y / r_a)
