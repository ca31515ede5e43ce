"""A loss that bounds the influence of a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from raycipe.components.losses._rows import Huber as HuberRows
from raycipe.components.losses._rows import doubly_robust
from raycipe.framework.arguments import Positive, Range
from raycipe.framework.contracts import CausalLoss, RowLoss, Sample
from raycipe.framework.registry import register


@register
class Huber(CausalLoss):
    """Huber's loss of the doubly robust pseudo-outcome: a robust location of the effect, not its mean.

    h(phi - g) with h(r) = r^2 / 2 within delta = factor * 1.4826 * median|phi - median(phi)|, linear beyond. Where phi
    is skewed the target differs from the mean effect, and the report says so.

    Args:
        factor: of delta; larger values come closer to the mean
        clip: propensities are kept within [clip, 1 - clip]

    Reference:
        P. J. Huber, Robust Estimation of a Location Parameter, Annals of Mathematical Statistics, 1964.

    Recipe:
        data: {type: causal_dgp, name: dgp7, examples: 300}
        estimator: {type: gbayes_causal, loss: huber, posterior: laplace}
    """

    is_quadratic: ClassVar[bool] = False
    words: ClassVar[str] = "a robust location of the effect, which for skewed pseudo-outcomes is not the mean"

    def __init__(self, factor: Positive = 1.345, clip: Annotated[float, Range(ge=0, lt=0.5)] = 0.01) -> None:
        self.factor = factor
        self.clip = clip

    def row_loss(self, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        phi = doubly_robust(sample.y, sample.treatment, nuisances)
        spread = 1.4826 * np.median(np.abs(phi - np.median(phi)))
        return HuberRows(phi, self.factor * float(spread))
