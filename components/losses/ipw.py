"""Inverse propensity weighting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from raycipe.components.losses._rows import Quadratic
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import CausalLoss, RowLoss, Sample
from raycipe.framework.registry import register


@register
class Ipw(CausalLoss):
    """Inverse propensity weighting: (phi - g)^2 / 2 with phi = A Y / e - (1 - A) Y / (1 - e).

    It needs no model of the outcome, is not orthogonal, and has long intervals. With `normalize` (Hájek) the weights of
    each arm are divided by their mean, and phi is centred at the weighted means mu_a of the arms:
    phi = mu1 - mu0 + A (Y - mu1) / e / mean(A / e) - the same of the other arm.

    Args:
        clip: propensities are kept within [clip, 1 - clip]; larger values are steadier and more biased
        normalize: divide the weights of each arm by their mean; shorter intervals, and nothing changes if all outcomes
            are shifted

    Reference:
        D. G. Horvitz, D. J. Thompson, A Generalization of Sampling Without Replacement From a Finite Universe, 1952.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, loss: {type: ipw, normalize: true}}
    """

    def __init__(self, clip: Annotated[float, Range(ge=0, lt=0.5)] = 0.01, normalize: bool = False) -> None:
        self.clip = clip
        self.normalize = normalize

    def row_loss(self, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        a, y, e = sample.treatment, sample.y, nuisances["e"]
        treated, control = a / e, (1 - a) / (1 - e)
        if self.normalize:
            treated, control = treated / treated.mean(), control / control.mean()
            mu1, mu0 = (treated * y).mean(), (control * y).mean()
            phi = mu1 - mu0 + treated * (y - mu1) - control * (y - mu0)
        else:
            phi = treated * y - control * y
        return Quadratic(np.ones(len(phi)), phi)
