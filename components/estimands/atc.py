"""The effect on the untreated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from raycipe.components.losses._rows import Quadratic
from raycipe.framework.arguments import FromData
from raycipe.framework.contracts import CausalLoss, Estimand, RowLoss, Sample
from raycipe.framework.registry import register


@register
class Atc(Estimand):
    """The effect on the untreated, E[Y(1) - Y(0) | A = 0].

    Score b - a theta with a = 1 - A and b = (1 - A) (m1 - Y) + A (1 - e) / e (Y - m1), which is orthogonal.

    Args:
        truth: the true value, where it is known (simulated data tell it): the error and the coverage are then reported

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: atc}
    """

    losses: ClassVar[tuple[str, ...]] = ("dr",)
    words: ClassVar[str] = "the effect on the untreated, E[Y(1) - Y(0) | A = 0]"

    def __init__(self, truth: Annotated[float | None, FromData("true_atc")] = None) -> None:
        self.truth = truth

    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        a, y, e = sample.treatment, sample.y, nuisances["e"]
        residual = nuisances["m1"] - y
        return Quadratic(1 - a, (1 - a) * residual - a * (1 - e) / e * residual)
