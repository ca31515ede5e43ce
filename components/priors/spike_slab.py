"""A prior that holds no effect at all for possible."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from raycipe.components.priors._densities import SpikeSlab as SpikeSlabDensity
from raycipe.components.priors._densities import scale_of
from raycipe.framework.arguments import Positive, Range
from raycipe.framework.contracts import Density, Prior
from raycipe.framework.registry import register


@register
class SpikeSlab(Prior):
    """The effect is exactly 0 with probability w0, else N(0, sd^2): the posterior tells how likely there is none.

    The wider the slab, the more evidence an effect must bring (Lindley's paradox): state `sd` in outcome units.

    Args:
        w0: prior probability of no effect
        sd: deviation of an effect, if there is one; auto takes ten standard deviations of y, which favours none

    Reference:
        T. J. Mitchell, J. J. Beauchamp, Bayesian Variable Selection in Linear Regression, JASA 1988.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, prior: {type: spike_slab, sd: 1.0}, posterior: grid}
    """

    is_normal = False
    has_mass = True

    def __init__(self, w0: Annotated[float, Range(gt=0, lt=1)] = 0.5, sd: Positive | Literal["auto"] = "auto") -> None:
        self.w0 = w0
        self.sd = sd

    def bind(self, covariates: np.ndarray, y: np.ndarray, seed: int) -> Density:
        if covariates.shape[1] != 1:
            raise ValueError("prior: spike_slab stands for one number")
        return SpikeSlabDensity(self.w0, scale_of(y, self.sd))
