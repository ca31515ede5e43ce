"""A linear score, cut where the weighted error is least."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raycipe.components.weak_learners._pairs import Constant
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Fit, Hypothesis, WeakLearner
from raycipe.framework.registry import register


@dataclass(frozen=True)
class _Linear:
    direction: np.ndarray  # (d,)
    threshold: float
    is_flipped: bool

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.asarray((X @ self.direction > self.threshold) != self.is_flipped, dtype=float)


@register
class LinearThreshold(WeakLearner):
    """Weighted logistic regression, then the threshold on w · x that errs least under the same weights.

    Features are standardized for the fit.

    Args:
        C: inverse strength of the L2 penalty; larger fits closer

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, weak: linear_threshold, rounds: 10}
    """

    def __init__(self, C: Positive = 1.0) -> None:
        self.C = C

    def prepare(self, X: np.ndarray, y: np.ndarray) -> Fit:
        from sklearn.linear_model import LogisticRegression

        mean, spread = X.mean(axis=0), X.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        scaled = (X - mean) / spread

        def fit(weights: np.ndarray, generator: np.random.Generator) -> Hypothesis:
            model = LogisticRegression(C=self.C, max_iter=200).fit(scaled, y, sample_weight=weights * len(y))
            direction = model.coef_[0] / spread
            return _cut(X, y, weights, direction)

        return fit


def _cut(X: np.ndarray, y: np.ndarray, weights: np.ndarray, direction: np.ndarray) -> Hypothesis:
    """The best threshold along a direction."""
    scores = X @ direction
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    errors = np.cumsum(np.where(y, weights, -weights)[order])[:-1] + weights[~y].sum() - 0.5
    allowed = ordered[1:] > ordered[:-1]
    if not allowed.any():
        return Constant(0.5)
    at = int(np.where(allowed, np.abs(errors), -1.0).argmax())
    middle = ordered[at] + (ordered[at + 1] - ordered[at]) / 2
    return _Linear(direction, float(middle if middle < ordered[at + 1] else ordered[at]), bool(errors[at] > 0))
