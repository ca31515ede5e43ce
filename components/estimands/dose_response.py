"""The mean outcome as a function of a continuous treatment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from raycipe.components.losses._rows import Quadratic
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import CausalLoss, Estimand, RowLoss, Sample
from raycipe.framework.contracts.causal import Design
from raycipe.framework.registry import register


@register
class DoseResponse(Estimand):
    """The curve a -> E[Y(a)] of a continuous treatment, with a prior over functions.

    The doubly robust pseudo-outcome (Y - m(x, A)) f(A) / f(A|x) + mean_j m(x_j, A) is a function of A alone. The ratio
    of the densities is clipped to [0.05, 20], and the share of clipped rows is reported. `predict` takes treatments in
    one column.

    Args:
        points: of the curve that is reported, between the 5th and the 95th percentile of the treatment

    Reference:
        E. H. Kennedy, Z. Ma, M. D. McHugh, D. S. Small, Non-parametric Methods for Doubly Robust Estimation of
        Continuous Treatment Effects, JRSS B 2017.

    Recipe:
        data: {type: causal_dgp, name: dose, examples: 300}
        estimator: {type: gbayes_causal, estimand: dose_response, prior: gp, calibration: residual}
    """

    design: ClassVar[Design] = "dose"
    is_function: ClassVar[bool] = True
    losses: ClassVar[tuple[str, ...]] = ("dr",)
    words: ClassVar[str] = "the mean outcome E[Y(a)] as a function of the treatment a"

    def __init__(self, points: Annotated[int, Range(ge=2, le=1000)] = 21) -> None:
        self.points = points

    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        eta = nuisances
        phi = (sample.y - eta["m"]) * eta["ratio"] + eta["m_bar"]
        return Quadratic(np.ones(len(phi)), phi)

    def covariates(self, sample: Sample) -> np.ndarray:
        return sample.treatment[:, None]

    def at(self, X: np.ndarray) -> np.ndarray:
        return X
