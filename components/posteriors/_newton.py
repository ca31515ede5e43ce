"""Shared by posteriors and calibrations: the mode of a generalized posterior."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from raycipe.components.losses._rows import Quadratic
from raycipe.components.posteriors._normal import conjugate
from raycipe.framework.contracts import GeneralizedPosterior

Array = np.ndarray
STEPS = 200
TOLERANCE = 1e-8  # of the gradient's norm, relative to where the search began
SMALLEST_STEP = 1e-12


def mode(problem: GeneralizedPosterior, start: Array | None = None) -> tuple[Array, Array]:
    """The posterior's mode (p,) and the inverse of its precision there (p, p).

    Newton's method with halved steps; the closed form where there is one. Raises ValueError if it finds no mode.
    """
    if isinstance(problem.loss, Quadratic) and problem.density.normal is not None:
        return conjugate(problem)
    beta = np.zeros(problem.density.size) if start is None else start
    if start is None and problem.density.normal is not None:
        beta = problem.density.normal[0].copy()
    value = problem.log_density(beta)
    first = None
    for _ in range(STEPS):
        gradient = problem.gradient(beta)
        size = float(np.linalg.norm(gradient))
        first = max(size, 1.0) if first is None else first
        if size <= TOLERANCE * first:
            break
        step = linalg.solve(_definite(problem.precision(beta)), gradient, assume_a="pos")
        rate = 1.0
        while not (new := problem.log_density(beta + rate * step)) >= value:
            rate /= 2
            if rate < SMALLEST_STEP:
                break
        if rate < SMALLEST_STEP or new - value <= 1e-14 * (1 + abs(value)):  # rounding hides what is left, or a kink
            break
        beta, value = beta + rate * step, new
    else:
        raise ValueError("posterior: Newton's method found no mode: is the loss convex, and the prior proper?")
    return beta, linalg.inv(_definite(problem.precision(beta)))


def _definite(precision: Array) -> Array:
    """With a ridge where rows beyond Huber's delta, or a Laplace prior, leave nothing to divide by."""
    ridge = 1e-10 * max(float(np.trace(precision)) / len(precision), 1e-300)
    return precision + ridge * np.eye(len(precision))
