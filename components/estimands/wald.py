"""The effect on compliers, by regression alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from raycipe.components.losses._rows import Quadratic
from raycipe.framework.arguments import FromData
from raycipe.framework.contracts import CausalLoss, Estimand, RowLoss, Sample
from raycipe.framework.contracts.causal import Design
from raycipe.framework.registry import register


@register
class Wald(Estimand):
    """The effect on compliers by outcome models alone: as `late`, but not orthogonal, for comparison.

    The quotient of E[Y | x, Z = 1] - E[Y | x, Z = 0] and the same of A, each averaged over x.

    Args:
        truth: the true value, where it is known (simulated data tell it): the error and the coverage are then reported

    Recipe:
        data: {type: causal_dgp, name: iv1, examples: 300}
        estimator: {type: gbayes_causal, estimand: wald, loss: ra}
    """

    design: ClassVar[Design] = "instrument"
    losses: ClassVar[tuple[str, ...]] = ("ra",)
    words: ClassVar[str] = "the effect on compliers, whose treatment follows the instrument"

    def __init__(self, truth: Annotated[float | None, FromData("true_late")] = None) -> None:
        self.truth = truth

    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        eta = nuisances
        return Quadratic(eta["a1"] - eta["a0"], eta["y1"] - eta["y0"])
