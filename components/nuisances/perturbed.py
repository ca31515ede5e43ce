"""The true nuisances with an error of a known rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from raycipe.components.nuisances._truth import check_truth, truth
from raycipe.framework.arguments import NonNegative, Range
from raycipe.framework.contracts import Nuisance, Nuisances, Sample
from raycipe.framework.contracts.causal import Design, FanOut
from raycipe.framework.registry import register


@register
class Perturbed(Nuisance):
    """True nuisances of simulated data plus scale * n^-rate times fixed directions, to see what an error does.

    logit e + d (x_1 + 1/2), m0 + d (1 + x_1), m1 + d (x_2 - 1/2), with d = scale n^-rate. With an orthogonal loss the
    posterior comes to that of the true nuisances where rate > 1/4; with another it does not.

    Args:
        rate: r, at which the error shrinks with the number of rows
        scale: of the error

    Reference:
        E. Javurek, D. Frauen, Y. Wang, S. Feuerriegel, Generalized Bayes for Causal Inference, 2026.

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, nuisance: {type: perturbed, rate: 0.3}}
    """

    def __init__(self, rate: Annotated[float, Range(ge=0, le=1)] = 0.3, scale: NonNegative = 1.0) -> None:
        self.rate = rate
        self.scale = scale

    def check(self, design: Design, facts: Mapping[str, Any]) -> None:
        check_truth("perturbed", design, facts)

    def fit(
        self,
        sample: Sample,
        design: Design,
        folds: np.ndarray,
        seed: int,
        level: float = 1.0,
        fan_out: FanOut = map,
    ) -> Nuisances:
        true = truth(sample)
        first, last = sample.X[:, 0], sample.X[:, min(1, sample.X.shape[1] - 1)]
        distance = self.scale * len(sample) ** -self.rate
        logit = np.log(true["e"] / (1 - true["e"])) + distance * (first + 0.5)
        return Nuisances(
            {
                "e": 1 / (1 + np.exp(-logit)),
                "m0": true["m0"] + distance * (1 + first),
                "m1": true["m1"] + distance * (last - 0.5),
            }
        )
