"""Shared by `poly_ridge` and `poly_logistic`: the features, and penalized fits in closed form or by Newton's method."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
STEPS = 50
TOLERANCE = 1e-10


def features(X: Array) -> Array:
    """[X, X^2, sin X, x_1 x_2, 1]: (n, d) → (n, 3 d + 2), (n, 3 d + 1) for one column."""
    product = [X[:, :1] * X[:, 1:2]] if X.shape[1] > 1 else []
    return np.concatenate([X, X**2, np.sin(X), *product, np.ones((len(X), 1))], axis=1)


def ridge(Phi: Array, y: Array, penalty: float, weights: Array | None) -> Array:
    """argmin_b sum_i w_i (y_i - Phi_i b)^2 + penalty |b|^2, (p,); y may be (n, targets)."""
    weighted = Phi if weights is None else Phi * weights[:, None]
    found: Array = np.linalg.solve(weighted.T @ Phi + penalty * np.eye(Phi.shape[1]), weighted.T @ y)
    return found


def logistic(Phi: Array, y: Array, C: float, weights: Array | None) -> Array:
    """argmin_b sum_i w_i log(1 + exp(-(2 y_i - 1) Phi_i b)) + |b|^2 / (2 C), by Newton's method with halved steps."""
    w = np.ones(len(y)) if weights is None else weights
    beta = np.zeros(Phi.shape[1])

    def objective(b: Array) -> float:
        scores = Phi @ b
        return float((w * (np.logaddexp(0.0, scores) - y * scores)).sum() + 0.5 * (b @ b) / C)

    value = objective(beta)
    for _ in range(STEPS):
        p = sigmoid(Phi @ beta)
        gradient = Phi.T @ (w * (p - y)) + beta / C
        hessian = (Phi * (w * p * (1 - p))[:, None]).T @ Phi + np.eye(len(beta)) / C
        step = np.linalg.solve(hessian, gradient)
        rate = 1.0
        while (new := objective(beta - rate * step)) > value and rate > TOLERANCE:
            rate /= 2
        beta = beta - rate * step
        if value - new <= TOLERANCE * (1 + abs(value)):
            break
        value = new
    return beta


def sigmoid(scores: Array) -> Array:
    found: Array = 0.5 * (1.0 + np.tanh(0.5 * scores))
    return found
