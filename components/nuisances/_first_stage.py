"""Shared by the nuisances: fits in one fold, and the densities of a continuous treatment."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from raycipe.framework.contracts import Estimator

Array = np.ndarray
GRID = 50  # treatments at which means over all x are taken; between them they are interpolated
RATIO = (0.05, 20.0)  # of densities: beyond, a row would count for nothing or for all


def mean_model(learner: Estimator, X: Array, y: Array, weights: Array | None) -> Any:
    """A fresh copy of the learner, fitted: `model(X)` gives (n,) numbers."""
    fitted: Any = copy.deepcopy(learner).fit(X, y, **({} if weights is None else {"weights": weights}))
    return lambda Z: np.asarray(fitted.predict(Z), dtype=np.float64).reshape(len(Z))


def probability_model(learner: Estimator, X: Array, chosen: Array, weights: Array | None) -> Any:
    """A fresh copy of the learner, fitted to 0 and 1: `model(X)` gives (n,) probabilities of 1.

    Where only one of them occurs, it is certain.
    """
    if chosen.min() == chosen.max():
        only = float(chosen[0])
        return lambda Z: np.full(len(Z), only)
    given = {} if weights is None else {"weights": weights}
    fitted: Any = copy.deepcopy(learner).fit(X, chosen.astype(np.int64), **given)
    second = list(fitted.classes_).index(1)
    return lambda Z: np.asarray(fitted.predict_proba(Z), dtype=np.float64)[:, second]


def isotonic(learner: Estimator, X: Array, chosen: Array, weights: Array | None) -> Any:
    """`probability_model`, made to keep what it says: its own out-of-fold probabilities, monotonically corrected."""
    from sklearn.isotonic import IsotonicRegression

    halves = np.arange(len(X)) % 2
    held_out = np.zeros(len(X))
    for half in (0, 1):
        seen = halves != half
        model = probability_model(learner, X[seen], chosen[seen], None if weights is None else weights[seen])
        held_out[~seen] = model(X[~seen])
    curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(held_out, chosen, sample_weight=weights)
    whole = probability_model(learner, X, chosen, weights)
    return lambda Z: np.asarray(curve.predict(whole(Z)), dtype=np.float64)


def density_ratio(centre: Array, spread: Array, residuals: Array, a: Array) -> Array:
    """f(a_i) / f(a_i|x_i) of a location-scale model, clipped; f(a) = mean_j f(a|x_j).

    centre and spread (n,) are the treatment's mean and deviation given x_i, residuals (m,) standardized training ones,
    whose density is a kernel estimate (Silverman's bandwidth).
    """
    from scipy.stats import gaussian_kde

    kernel = gaussian_kde(residuals, bw_method="silverman")
    reach = np.abs(residuals).max() + 3.0
    at = np.linspace(-reach, reach, 1001)
    heights = kernel(at)

    def density(z: Array) -> Array:
        return np.interp(z, at, heights, left=0.0, right=0.0)

    grid = np.linspace(a.min(), a.max(), GRID)
    marginal = (density((grid[:, None] - centre) / spread) / spread).mean(axis=1)
    own = density((a - centre) / spread) / spread
    ratio = np.interp(a, grid, marginal) / np.maximum(own, np.finfo(np.float64).tiny)
    return np.clip(ratio, *RATIO)


def mean_over_rows(model: Any, X: Array, a: Array) -> Array:
    """mean_j m(x_j, a_i), (n,): taken on a grid of treatments and interpolated."""
    grid = np.linspace(a.min(), a.max(), GRID)
    means = [float(model(np.column_stack([X, np.full(len(X), value)])).mean()) for value in grid]
    return np.interp(a, grid, means)
