"""The average partial effect of a continuous treatment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from raycipe.framework.arguments import FromData
from raycipe.framework.contracts import CausalLoss, Estimand, RowLoss, Sample
from raycipe.framework.contracts.causal import Design
from raycipe.framework.registry import register


@register
class Ape(Estimand):
    """The average partial effect of a continuous treatment in a partially linear model Y = theta A + f(x) + noise.

    Args:
        truth: the true value, where it is known (simulated data tell it): the error and the coverage are then reported

    Reference:
        P. M. Robinson, Root-N-Consistent Semiparametric Regression, Econometrica 1988.

    Recipe:
        data: {type: causal_dgp, name: plr, examples: 300}
        estimator: {type: gbayes_causal, estimand: ape, loss: r}
    """

    design: ClassVar[Design] = "continuous"
    losses: ClassVar[tuple[str, ...]] = ("r",)
    words: ClassVar[str] = "the average partial effect of the treatment in a partially linear model"

    def __init__(self, truth: Annotated[float | None, FromData("true_ape")] = None) -> None:
        self.truth = truth

    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        return loss.row_loss(sample, nuisances)
