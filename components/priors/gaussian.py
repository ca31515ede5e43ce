"""A normal prior on the effect."""

from __future__ import annotations

from typing import Literal

import numpy as np

from raycipe.components.priors._densities import Normal, scale_of
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Density, Prior
from raycipe.framework.registry import register


@register
class Gaussian(Prior):
    """The effect is N(mean, sd^2), in units of the outcome; with a quadratic loss the posterior is normal, too.

    Args:
        mean: what is believed beforehand
        sd: how firmly; auto takes ten standard deviations of y, which says nothing but the scale

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, prior: {type: gaussian, mean: 1.0, sd: 0.5}}
    """

    def __init__(self, mean: float = 0.0, sd: Positive | Literal["auto"] = "auto") -> None:
        self.mean = mean
        self.sd = sd

    def bind(self, covariates: np.ndarray, y: np.ndarray, seed: int) -> Density:
        return Normal(covariates.shape[1], self.mean, scale_of(y, self.sd))
