"""Shared by the priors over functions: standardized covariates, kernels, bases with coefficients N(0, 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from scipy import linalg

Array = np.ndarray
Kernel = Literal["rbf", "matern32", "matern52", "rq"]
CONSTANT_SD, LINEAR_SD, KERNEL_SD = 10.0, 0.5, 0.5  # in standard deviations of y
MEDIAN_ROWS = 1000  # for the median distance
JITTER = 1e-6  # of the kernel matrix of the inducing rows, relative to its diagonal


class Scaler(NamedTuple):
    """Standardizes covariates and leaves out constant and doubled ones."""

    kept: Array  # column numbers
    mean: Array
    sd: Array

    def __call__(self, covariates: Array) -> Array:
        found: Array = (covariates[:, self.kept] - self.mean) / self.sd
        return found


def scaler(covariates: Array) -> Scaler:
    """Raises ValueError if every covariate is constant."""
    sd = covariates.std(axis=0)
    varying = np.flatnonzero(sd > 1e-12 * np.maximum(np.abs(covariates).max(axis=0), 1e-300))
    if not len(varying):
        raise ValueError("prior: every covariate is constant, so the effect can't be a function of them")
    standard = (covariates[:, varying] - covariates[:, varying].mean(axis=0)) / sd[varying]
    _, first = np.unique(np.round(standard, 12), axis=1, return_index=True)
    kept = varying[np.sort(first)]
    return Scaler(kept, covariates[:, kept].mean(axis=0), sd[kept])


def square_distances(a: Array, b: Array) -> Array:
    """(n, d), (m, d) → (n, m)."""
    found = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
    return np.maximum(found, 0.0)


def kernel(name: Kernel, squares: Array) -> Array:
    """Correlation at squared distances in units of the lengthscale; rq has alpha = 1."""
    if name == "rbf":
        return np.exp(-0.5 * squares)
    if name == "rq":
        return 1.0 / (1.0 + 0.5 * squares)
    r = np.sqrt(squares)
    if name == "matern32":
        return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
    return (1 + np.sqrt(5) * r + 5 / 3 * squares) * np.exp(-np.sqrt(5) * r)


def median_distance(Z: Array, generator: np.random.Generator) -> float:
    """sqrt(2) times the median distance of two rows: the `auto` lengthscale."""
    rows = Z if len(Z) <= MEDIAN_ROWS else Z[generator.choice(len(Z), MEDIAN_ROWS, replace=False)]
    upper = square_distances(rows, rows)[np.triu_indices(len(rows), 1)]
    median = float(np.sqrt(np.median(upper)))
    return float(np.sqrt(2)) * (median if median > 0 else 1.0)


def spread_out(Z: Array, count: int, generator: np.random.Generator) -> Array:
    """`count` rows, each drawn with probability proportional to its squared distance from those before (k-means++)."""
    if count >= len(Z):
        return np.unique(Z, axis=0)
    chosen = [int(generator.integers(len(Z)))]
    nearest = square_distances(Z, Z[chosen])[:, 0]
    while len(chosen) < count and nearest.sum() > 0:
        chosen.append(int(generator.choice(len(Z), p=nearest / nearest.sum())))
        nearest = np.minimum(nearest, square_distances(Z, Z[chosen[-1:]])[:, 0])
    return Z[chosen]


def nystroem(name: Kernel, inducing: Array, lengthscale: float, sd: float) -> Callable[[Array], Array]:
    """Z → sd K_zm chol(K_mm)^-T, (n, m): with coefficients N(0, I) the process has its covariance at `inducing`."""
    K = kernel(name, square_distances(inducing, inducing) / lengthscale**2)
    factor = linalg.cholesky(K + JITTER * np.eye(len(K)), lower=True)

    def basis(Z: Array) -> Array:
        cross = kernel(name, square_distances(Z, inducing) / lengthscale**2)
        found: Array = sd * linalg.solve_triangular(factor, cross.T, lower=True).T
        return found

    return basis


def fourier(
    name: Kernel, dimension: int, count: int, lengthscale: float, sd: float, generator: np.random.Generator
) -> Callable[[Array], Array]:
    """Z → (n, count), cosines at frequencies drawn from the kernel's spectrum."""
    pairs = -(-count // 2)
    frequency = generator.standard_normal((pairs, dimension)) / lengthscale
    if name in ("matern32", "matern52"):  # multivariate t of 2 nu degrees of freedom
        df = 3 if name == "matern32" else 5
        frequency /= np.sqrt(generator.chisquare(df, (pairs, 1)) / df)
    elif name == "rq":
        frequency *= np.sqrt(generator.exponential(size=(pairs, 1)))

    def basis(Z: Array) -> Array:
        phase = Z @ frequency.T
        found: Array = sd / np.sqrt(pairs) * np.concatenate([np.cos(phase), np.sin(phase)], axis=1)
        return found

    return basis


def trend(mean: Literal["zero", "constant", "linear"], sd_y: float) -> Callable[[Array], Array]:
    """Z → the columns of a constant and of linear terms, scaled by their prior deviations."""

    def basis(Z: Array) -> Array:
        columns = [] if mean == "zero" else [np.full((len(Z), 1), CONSTANT_SD * sd_y)]
        if mean == "linear":
            columns.append(LINEAR_SD * sd_y * Z)
        return np.concatenate(columns, axis=1) if columns else np.zeros((len(Z), 0))

    return basis
