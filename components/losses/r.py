"""The R-loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from raycipe.components.losses._rows import Quadratic, residuals
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import CausalLoss, RowLoss, Sample
from raycipe.framework.registry import register


@register
class R(CausalLoss):
    """The R-loss (r_Y - r_A g)^2 / 2 with the residuals r_Y = Y - E[Y|x] and r_A = A - E[A|x].

    That is w = r_A^2 and w phi = r_A r_Y, without the quotient. It is Neyman-orthogonal, takes a continuous treatment
    as well, and with a constant effect targets the overlap-weighted one (`ato`), not the average.

    Args:
        clip: propensities are kept within [clip, 1 - clip]

    Reference:
        X. Nie, S. Wager, Quasi-Oracle Estimation of Heterogeneous Treatment Effects, Biometrika 2021.

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: ato, loss: r}
    """

    is_orthogonal = True

    def __init__(self, clip: Annotated[float, Range(ge=0, lt=0.5)] = 0.0) -> None:
        self.clip = clip

    def row_loss(self, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        r_y, r_a = residuals(sample.y, sample.treatment, nuisances)
        return Quadratic(r_a**2, r_a * r_y)
