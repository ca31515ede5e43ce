"""The doubly robust loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from raycipe.components.losses._rows import Quadratic, doubly_robust
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import CausalLoss, RowLoss, Sample
from raycipe.framework.registry import register


@register
class Dr(CausalLoss):
    """The doubly robust loss (AIPW): (phi - g)^2 / 2 with a pseudo-outcome that forgives small errors of either model.

    phi = m1 - m0 + A (Y - m1) / e - (1 - A) (Y - m0) / (1 - e). It is Neyman-orthogonal: errors of the nuisances enter
    as their product.

    Args:
        clip: propensities are kept within [clip, 1 - clip]; larger values are steadier and more biased
        normalize: divide the inverse propensity weights of each arm by their mean

    Reference:
        J. M. Robins, A. Rotnitzky, L. P. Zhao, Estimation of Regression Coefficients When Some Regressors Are Not
        Always Observed, JASA 1994.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, loss: {type: dr, clip: 0.02}}
    """

    is_orthogonal = True

    def __init__(self, clip: Annotated[float, Range(ge=0, lt=0.5)] = 0.01, normalize: bool = False) -> None:
        self.clip = clip
        self.normalize = normalize

    def row_loss(self, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        phi = doubly_robust(sample.y, sample.treatment, nuisances, self.normalize)
        return Quadratic(np.ones(len(phi)), phi)
