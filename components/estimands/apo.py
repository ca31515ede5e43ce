"""The mean outcome under one treatment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from raycipe.components.losses._rows import Quadratic, arm_outcome
from raycipe.framework.contracts import CausalLoss, Estimand, RowLoss, Sample
from raycipe.framework.contracts.causal import Design
from raycipe.framework.registry import register


@register
class Apo(Estimand):
    """The mean outcome E[Y(a)] if everybody had the treatment a, which may be one of many.

    Doubly robust: m_a + 1{A = a} (Y - m_a) / P(A = a | x).

    Args:
        truth: the true value, where it is known: the error and the coverage are then reported
        level: a, as a number

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: {type: apo, level: 0}}
    """

    design: ClassVar[Design] = "level"
    losses: ClassVar[tuple[str, ...]] = ("dr",)
    words: ClassVar[str] = "the mean outcome E[Y(a)] under the treatment of `level`"

    def __init__(self, level: float = 1.0, truth: float | None = None) -> None:
        self.level = level
        self.truth = truth

    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        chosen = (sample.treatment == self.level).astype(np.float64)
        phi = arm_outcome(sample.y, chosen, nuisances["e"], nuisances["m"])
        return Quadratic(np.ones(len(phi)), phi)
