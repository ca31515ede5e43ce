"""Shared by the posteriors: linear algebra of normal ones, draws, and refusals."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from raycipe.components.losses._rows import Quadratic
from raycipe.framework.contracts import GeneralizedPosterior
from raycipe.framework.streams import numpy_generator

Array = np.ndarray


def conjugate(problem: GeneralizedPosterior) -> tuple[Array, Array]:
    """Mean (p,) and covariance (p, p) of the posterior with a quadratic loss and normal coefficients, exactly.

    S = (D^-2 + omega Phi' W Phi)^-1,  b = S (D^-2 mu + omega Phi' (w phi - w m0)), with the prior N(mu, D^2).
    """
    loss, normal = problem.loss, problem.density.normal
    if not isinstance(loss, Quadratic) or normal is None:
        what = "this loss is not quadratic" if normal is not None else "this prior is not normal"
        raise ValueError(f"posterior: conjugate has no closed form, {what}: take grid, laplace or nuts")
    mean, sd = normal
    Phi, omega = problem.basis, problem.omega
    precision = np.diag(sd**-2) + omega * Phi.T @ (Phi * loss.w[:, None])
    score = mean / sd**2 + omega * Phi.T @ (loss.w_phi - loss.w * problem.offset)
    factor = linalg.cho_factor(precision, lower=True)
    covariance = linalg.cho_solve(factor, np.eye(len(mean)))
    return linalg.cho_solve(factor, score), 0.5 * (covariance + covariance.T)


def root(covariance: Array) -> Array:
    """R with R R' = covariance, which may be singular."""
    values, vectors = linalg.eigh(covariance)
    found: Array = vectors * np.sqrt(np.clip(values, 0.0, None))
    return found


def normal_draws(mean: Array, covariance: Array, count: int, seed: int) -> Array:
    """(count, p)."""
    z = numpy_generator(seed, "posterior").standard_normal((count, len(mean)))
    found: Array = mean + z @ root(covariance).T
    return found
