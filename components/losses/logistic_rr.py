"""The log risk ratio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np

from raycipe.components.losses._rows import Ratio, arm_outcome
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import CausalLoss, RowLoss, Sample
from raycipe.framework.registry import register


@register
class LogisticRr(CausalLoss):
    """The log risk ratio log(E[Y(1)|x] / E[Y(0)|x]) of an outcome that is never negative.

    Loss phi0 exp(g) - phi1 g with the doubly robust pseudo-outcomes of the two arms. A negative phi0 makes a row's
    loss concave; arms whose mean is not positive are refused.

    Args:
        phi: dr takes doubly robust pseudo-outcomes, imputed the outcome models alone: never negative where they are
            not, and not orthogonal
        clip: propensities are kept within [clip, 1 - clip]

    Reference:
        E. H. Kennedy, Towards Optimal Doubly Robust Estimation of Heterogeneous Causal Effects, EJS 2023.

    Recipe:
        data: {type: causal_dgp, name: risk, examples: 500}
        estimator: {type: gbayes_causal, loss: logistic_rr, posterior: laplace}
    """

    is_quadratic: ClassVar[bool] = False
    words: ClassVar[str] = "the log risk ratio"

    def __init__(
        self, phi: Literal["dr", "imputed"] = "dr", clip: Annotated[float, Range(ge=0, lt=0.5)] = 0.01
    ) -> None:
        self.phi = phi
        self.clip = clip
        self.is_orthogonal = phi == "dr"

    def row_loss(self, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        a, y, eta = sample.treatment, sample.y, nuisances
        if (y < 0).any():
            raise ValueError("loss: logistic_rr needs outcomes that are never negative")
        phi0, phi1 = eta["m0"], eta["m1"]
        if self.phi == "dr":
            phi0, phi1 = arm_outcome(y, 1 - a, 1 - eta["e"], phi0), arm_outcome(y, a, eta["e"], phi1)
        for name, values in (("untreated", phi0), ("treated", phi1)):
            if values.mean() <= 0:
                raise ValueError(f"loss: the mean pseudo-outcome of the {name} is not positive: take phi: imputed")
        return Ratio(phi0, phi1)
