"""The effect on compliers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from raycipe.components.losses._rows import Quadratic, doubly_robust
from raycipe.framework.arguments import FromData
from raycipe.framework.contracts import CausalLoss, Estimand, RowLoss, Sample
from raycipe.framework.contracts.causal import Design
from raycipe.framework.registry import register


@register
class Late(Estimand):
    """The effect on compliers: those whose binary treatment follows a binary instrument Z.

    The quotient of the instrument's effect on Y and that on A, each doubly robust; orthogonal.

    Args:
        truth: the true value, where it is known (simulated data tell it): the error and the coverage are then reported

    Reference:
        G. W. Imbens, J. D. Angrist, Identification and Estimation of Local Average Treatment Effects,
        Econometrica 1994.

    Recipe:
        data: {type: causal_dgp, name: iv1, examples: 300}
        estimator: {type: gbayes_causal, estimand: late}
    """

    design: ClassVar[Design] = "instrument"
    losses: ClassVar[tuple[str, ...]] = ("dr",)
    words: ClassVar[str] = "the effect on compliers, whose treatment follows the instrument"

    def __init__(self, truth: Annotated[float | None, FromData("true_late")] = None) -> None:
        self.truth = truth

    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        eta, z = nuisances, sample.instrument
        assert z is not None  # the estimator has asked
        on_y = doubly_robust(sample.y, z, {"e": eta["z"], "m0": eta["y0"], "m1": eta["y1"]})
        on_a = doubly_robust(sample.treatment, z, {"e": eta["z"], "m0": eta["a0"], "m1": eta["a1"]})
        return Quadratic(on_a, on_y)
