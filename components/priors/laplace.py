"""A Laplace prior on the effect."""

from __future__ import annotations

from typing import Literal

import numpy as np

from raycipe.components.priors._densities import DoubleExponential, scale_of
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Density, Prior
from raycipe.framework.registry import register


@register
class Laplace(Prior):
    """The effect has the density exp(-|theta - mean| / scale): small effects are likely, large ones possible.

    Args:
        mean: what is believed beforehand
        scale: how firmly, in units of the outcome; auto takes ten standard deviations of y

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, prior: {type: laplace, scale: 0.5}, posterior: grid}
    """

    is_normal = False

    def __init__(self, mean: float = 0.0, scale: Positive | Literal["auto"] = "auto") -> None:
        self.mean = mean
        self.scale = scale

    def bind(self, covariates: np.ndarray, y: np.ndarray, seed: int) -> Density:
        return DoubleExponential(covariates.shape[1], self.mean, scale_of(y, self.scale))
