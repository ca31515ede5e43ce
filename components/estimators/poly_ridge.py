"""Ridge regression on a few fixed nonlinear features."""

from __future__ import annotations

from typing import Any

import numpy as np

from raycipe.components.estimators import _polynomial as polynomial
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Estimator
from raycipe.framework.registry import register


@register
class PolyRidge(Estimator):
    """Ridge regression on the features [X, X^2, sin X, x_1 x_2, 1], in closed form: a fast outcome model.

    b = (Phi' Phi + penalty I)^-1 Phi' y. The constant is penalized like the rest, as in the experiments of the paper.

    Args:
        penalty: of the squared coefficients; larger values shrink more

    Reference:
        E. Javurek, D. Frauen, Y. Wang, S. Feuerriegel, Generalized Bayes for Causal Inference, 2026.

    Recipe:
        data: {type: synthetic_regression, examples: 300}
        estimator: {type: poly_ridge, penalty: 1.0}
    """

    def __init__(self, penalty: Positive = 1.0) -> None:
        self.penalty = penalty

    def fit(self, X: Any, y: Any = None, **roles: Any) -> Any:
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self.coefficients_ = polynomial.ridge(polynomial.features(X), y, self.penalty, roles.get("weights"))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(n,) or (n, targets)."""
        found: np.ndarray = polynomial.features(np.asarray(X, dtype=np.float64)) @ self.coefficients_
        return found
