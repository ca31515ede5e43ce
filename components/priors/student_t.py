"""A heavy-tailed prior on the effect."""

from __future__ import annotations

from typing import Literal

import numpy as np

from raycipe.components.priors._densities import StudentT as TDensity
from raycipe.components.priors._densities import scale_of
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Density, Prior
from raycipe.framework.registry import register


@register
class StudentT(Prior):
    """The effect is mean + scale * t_df: an informative prior that gives way to data that contradict it.

    Args:
        mean: what is believed beforehand
        scale: how firmly, in units of the outcome; auto takes ten standard deviations of y
        df: degrees of freedom; smaller values have heavier tails

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, prior: {type: student_t, scale: 0.5}, posterior: grid}
    """

    is_normal = False

    def __init__(self, mean: float = 0.0, scale: Positive | Literal["auto"] = "auto", df: Positive = 3.0) -> None:
        self.mean = mean
        self.scale = scale
        self.df = df

    def bind(self, covariates: np.ndarray, y: np.ndarray, seed: int) -> Density:
        return TDensity(covariates.shape[1], self.mean, scale_of(y, self.scale), self.df)
