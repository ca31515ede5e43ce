"""The true nuisances of simulated data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from raycipe.components.nuisances._truth import check_truth, truth
from raycipe.framework.contracts import Nuisance, Nuisances, Sample
from raycipe.framework.contracts.causal import Design, FanOut
from raycipe.framework.registry import register


@register
class Oracle(Nuisance):
    """The true propensity and mean outcomes of simulated data: what no estimated nuisance can beat.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, nuisance: oracle}
    """

    def check(self, design: Design, facts: Mapping[str, Any]) -> None:
        check_truth("oracle", design, facts)

    def fit(
        self,
        sample: Sample,
        design: Design,
        folds: np.ndarray,
        seed: int,
        level: float = 1.0,
        fan_out: FanOut = map,
    ) -> Nuisances:
        return Nuisances(truth(sample))
