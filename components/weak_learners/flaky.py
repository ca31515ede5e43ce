"""A learner that fails now and then."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from raycipe.components.weak_learners._pairs import Constant, Opposite
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Fit, Hypothesis, WeakLearner
from raycipe.framework.registry import register


@register
class Flaky(WeakLearner):
    """Another learner, that keeps its promise with some probability: what amplification is tried on.

    A failed fit gives a coin that knows nothing (says positive with one probability u, uniform in [0, 1], whatever the
    example), or the opposite of what was learned.

    Args:
        base: the learner
        success: the probability of a good fit, drawn for each fit
        failure: what comes otherwise: uniform (the coin) or adversarial (the opposite)

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, weak: {type: flaky, base: stump, success: 0.8}, rounds: 20}
    """

    def __init__(
        self,
        base: WeakLearner,
        success: Annotated[float, Range(ge=0, le=1)] = 0.8,
        failure: Literal["uniform", "adversarial"] = "uniform",
    ) -> None:
        self.base = base
        self.success = success
        self.failure = failure

    def allows_nan(self) -> bool:
        return self.base.allows_nan()

    def prepare(self, X: np.ndarray, y: np.ndarray) -> Fit:
        inner = self.base.prepare(X, y)

        def fit(weights: np.ndarray, generator: np.random.Generator) -> Hypothesis:
            is_good, coin = generator.random() < self.success, float(generator.random())
            if not is_good and self.failure == "uniform":
                return Constant(coin)
            found = inner(weights, generator)
            return found if is_good else Opposite(found)

        return fit
