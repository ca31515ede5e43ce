"""The average effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from raycipe.framework.arguments import FromData
from raycipe.framework.contracts import CausalLoss, Estimand, RowLoss, Sample
from raycipe.framework.registry import register


@register
class Ate(Estimand):
    """The average effect E[Y(1) - Y(0)] of a binary treatment.

    Args:
        truth: the true value, where it is known (simulated data tell it): the error and the coverage are then reported

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: ate}
    """

    losses: ClassVar[tuple[str, ...]] = ("dr", "ipw", "ra", "huber", "logistic_rr")
    words: ClassVar[str] = "the average effect E[Y(1) - Y(0)]"

    def __init__(self, truth: Annotated[float | None, FromData("true_ate")] = None) -> None:
        self.truth = truth

    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        return loss.row_loss(sample, nuisances)
