"""The overlap-weighted effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from raycipe.framework.arguments import FromData
from raycipe.framework.contracts import CausalLoss, Estimand, RowLoss, Sample
from raycipe.framework.registry import register


@register
class Ato(Estimand):
    """The overlap-weighted effect E[e (1 - e) tau(x)] / E[e (1 - e)].

    It weighs most the people whose treatment was least certain, and is what the R-loss with a constant effect targets.

    Args:
        truth: the true value, where it is known (simulated data tell it): the error and the coverage are then reported

    Reference:
        F. Li, K. L. Morgan, A. M. Zaslavsky, Balancing Covariates via Propensity Score Weighting, JASA 2018.

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: ato, loss: r}
    """

    losses: ClassVar[tuple[str, ...]] = ("r",)
    words: ClassVar[str] = "the overlap-weighted effect E[e (1 - e) tau] / E[e (1 - e)]"

    def __init__(self, truth: Annotated[float | None, FromData("true_ato")] = None) -> None:
        self.truth = truth

    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        return loss.row_loss(sample, nuisances)
