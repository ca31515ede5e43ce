"""The X-learner's loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from raycipe.components.losses._rows import Quadratic
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import CausalLoss, RowLoss, Sample
from raycipe.framework.registry import register


@register
class X(CausalLoss):
    """The X-learner: one effect function from each arm, g1 of phi = Y - m0 and g0 of phi = m1 - Y, joined by e(x).

    The effect is e(x) g0(x) + (1 - e(x)) g1(x), with independent posteriors of g0 and g1. It is not orthogonal, and
    does well where one arm is much larger than the other.

    Args:
        clip: propensities are kept within [clip, 1 - clip]

    Reference:
        S. R. Künzel, J. S. Sekhon, P. J. Bickel, B. Yu, Metalearners for Estimating Heterogeneous Treatment Effects
        Using Machine Learning, PNAS 2019.

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: cate, loss: x, prior: linear, calibration: residual}
    """

    joins_arms: ClassVar[bool] = True

    def __init__(self, clip: Annotated[float, Range(ge=0, lt=0.5)] = 0.01) -> None:
        self.clip = clip

    def row_loss(self, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        """Of the effect in each row's own arm.

        Its weight, relative to the mean of both arms, is one over the arm's variance: each posterior has its own rate.
        """
        a, y = sample.treatment, sample.y
        phi = np.where(a == 1, y - nuisances["m0"], nuisances["m1"] - y)
        variance = np.where(a == 1, phi[a == 1].var(), phi[a == 0].var())
        w = variance.mean() / np.maximum(variance, 1e-12 * variance.mean())
        return Quadratic(w, w * phi)
