"""Logistic regression on a few fixed nonlinear features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from raycipe.components.estimators import _polynomial as polynomial
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Estimator
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class PolyLogistic(Estimator):
    """Logistic regression of two classes on the features [X, X^2, sin X, x_1 x_2, 1]: a fast propensity model.

    The squared coefficients, the constant's too, are penalized by 1 / (2 C).

    Args:
        C: inverse strength of the penalty; smaller values shrink more

    Reference:
        E. Javurek, D. Frauen, Y. Wang, S. Feuerriegel, Generalized Bayes for Causal Inference, 2026.

    Recipe:
        data: breast_cancer
        estimator: {type: poly_logistic, C: 0.1}
    """

    def __init__(self, C: Positive = 1.0) -> None:
        self.C = C

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        if facts.get("num_classes") != 2:
            told = f"{facts['num_classes']} classes" if "num_classes" in facts else "a number as target"
            hint = "take {type: sklearn, name: LogisticRegression}, or a regressor for numbers"
            raise RunError(
                "recipe", f"poly_logistic tells two classes apart, and the data has {told}", hint, "estimator"
            )

    def fit(self, X: Any, y: Any = None, **roles: Any) -> Any:
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) != 2:
            raise ValueError(f"y: needs two classes, not {len(self.classes_)}")
        is_second = (y == self.classes_[1]).astype(np.float64)
        self.coefficients_ = polynomial.logistic(polynomial.features(X), is_second, self.C, roles.get("weights"))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, 2)."""
        second = polynomial.sigmoid(polynomial.features(np.asarray(X, dtype=np.float64)) @ self.coefficients_)
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """(n,) classes."""
        found: np.ndarray = self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(np.int64)]
        return found
