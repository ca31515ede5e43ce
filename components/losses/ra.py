"""Regression adjustment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from raycipe.components.losses._rows import Quadratic
from raycipe.framework.contracts import CausalLoss, RowLoss, Sample
from raycipe.framework.registry import register


@register
class Ra(CausalLoss):
    """Regression adjustment: (phi - g)^2 / 2 with phi from the outcome models alone.

    plugin: phi = m1 - m0; imputed: phi = A (Y - m0) + (1 - A) (m1 - Y). It is not orthogonal: with the sandwich rate
    its intervals are splendidly narrow and wrong, since phi does not vary with the error of the models. The bootstrap
    calibration, which fits the models again, repairs it.

    Args:
        variant: plugin takes the difference of the two models, imputed keeps what was observed

    Reference:
        A. Curth, M. van der Schaar, Nonparametric Estimation of Heterogeneous Treatment Effects, AISTATS 2021.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator:
          type: gbayes_causal
          loss: {type: ra, variant: imputed}
          calibration: {type: bootstrap, replicates: 20}
    """

    def __init__(self, variant: Literal["plugin", "imputed"] = "plugin") -> None:
        self.variant = variant

    def row_loss(self, sample: Sample, nuisances: Mapping[str, np.ndarray]) -> RowLoss:
        a, y, m0, m1 = sample.treatment, sample.y, nuisances["m0"], nuisances["m1"]
        phi = m1 - m0 if self.variant == "plugin" else a * (y - m0) + (1 - a) * (m1 - y)
        return Quadratic(np.ones(len(phi)), phi)
