"""The effect as a function of the covariates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from raycipe.framework.contracts import CausalLoss, Estimand, RowLoss, Sample
from raycipe.framework.registry import register


@register
class Cate(Estimand):
    """The effect E[Y(1) - Y(0) | x] as a function of the covariates, with a prior over functions.

    What is reported as the estimate is the average of the function over the data's rows; its interval adds no sampling
    variance of x (it is that of the sample's average effect). Intervals at single x are pointwise, on average over x.

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: cate, prior: {type: gp, inducing: 40}, calibration: residual}
    """

    is_function: ClassVar[bool] = True
    losses: ClassVar[tuple[str, ...]] = ("dr", "r", "ipw", "ra", "x", "u", "huber", "logistic_rr")
    words: ClassVar[str] = "the effect E[Y(1) - Y(0) | x] as a function of x"

    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        return loss.row_loss(sample, nuisances)

    def covariates(self, sample: Sample) -> np.ndarray:
        return sample.X

    def at(self, X: np.ndarray) -> np.ndarray:
        return X
