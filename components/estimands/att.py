"""The effect on the treated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from raycipe.components.losses._rows import Quadratic
from raycipe.framework.arguments import FromData
from raycipe.framework.contracts import CausalLoss, Estimand, RowLoss, Sample
from raycipe.framework.registry import register


@register
class Att(Estimand):
    """The effect on the treated, E[Y(1) - Y(0) | A = 1].

    Score b - a theta with a = A and b = A (Y - m0) - (1 - A) e / (1 - e) (Y - m0), which is orthogonal.

    Args:
        truth: the true value, where it is known (simulated data tell it): the error and the coverage are then reported

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: att}
    """

    losses: ClassVar[tuple[str, ...]] = ("dr",)
    words: ClassVar[str] = "the effect on the treated, E[Y(1) - Y(0) | A = 1]"

    def __init__(self, truth: Annotated[float | None, FromData("true_att")] = None) -> None:
        self.truth = truth

    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        a, y, e = sample.treatment, sample.y, nuisances["e"]
        residual = y - nuisances["m0"]
        return Quadratic(a, a * residual - (1 - a) * e / (1 - e) * residual)
