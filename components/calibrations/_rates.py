"""Shared by the calibrations: learning rates, and covariances that do not trust the loss to be a likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from raycipe.components.losses._rows import Quadratic
from raycipe.components.posteriors._newton import mode
from raycipe.components.priors._densities import Normal
from raycipe.framework.contracts import Calibrated, Evidence, GeneralizedPosterior, RowLoss
from raycipe.framework.streams import numpy_generator

Array = np.ndarray
FLOOR = 1e-12  # of the variance of the score, relative to that of y
FLAT = 1e8  # prior standard deviation that no data can feel
NO_VARIANCE = "the loss does not vary over the rows, so its rate is meaningless: take calibration: bootstrap"


def constant_effect(loss: RowLoss, n: int) -> float:
    """The g that minimizes the mean loss if it is the same for every row: theta_hat = b_bar / a_bar if quadratic."""
    if isinstance(loss, Quadratic):
        return float(loss.w_phi.sum() / loss.w.sum())
    problem = GeneralizedPosterior(loss, np.ones((n, 1)), np.zeros(n), Normal(1, 0.0, FLAT))
    return float(mode(problem)[0][0])


def cluster_sums(values: Array, groups: Array | None) -> Array:
    """(n, ...) → (clusters, ...); the values themselves without clusters."""
    if groups is None:
        return values
    _, number = np.unique(groups, return_inverse=True)
    found = np.zeros((int(number.max()) + 1, *values.shape[1:]))
    np.add.at(found, number, values)
    return found


def scalar_parts(loss: RowLoss, groups: Array | None, n: int) -> tuple[float, float, float]:
    """theta_hat, H = |mean curvature| and J, the variance of the scores there, by clusters (so that n J H^-2 / n^2
    is the variance of theta_hat)."""
    theta = constant_effect(loss, n)
    g = np.full(n, theta)
    scores = cluster_sums(loss.slope(g), groups)
    clusters = len(scores)
    return theta, abs(float(loss.curvature(g).mean())), float((scores**2).sum()) / n * clusters / (clusters - 1)


def scalar_rate(evidence: Evidence, how: str) -> Calibrated:
    """omega = H / J."""
    _, H, J = scalar_parts(evidence.problem.loss, evidence.groups, len(evidence.problem.offset))
    if FLOOR * evidence.variance * max(H, 1.0) > J:
        return Calibrated(H / (FLOOR * evidence.variance * max(H, 1.0)), how, NO_VARIANCE)
    return Calibrated(H / J, how)


def residual_rate(evidence: Evidence) -> Calibrated:
    """omega = mean curvature / (sum of squared scores / (n - df)), at the fit with the naive rate."""
    naive = scalar_rate(evidence, "naive")
    problem = evidence.problem.at(naive.omega)
    beta, S = mode(problem)
    g = problem.g(beta)
    n = len(g)
    spread = float((problem.loss.slope(g) ** 2).sum()) / max(n - degrees_of_freedom(problem, g, S), 1.0)
    if spread < FLOOR * evidence.variance:
        return Calibrated(naive.omega, "residual variance of the fit", NO_VARIANCE)
    return Calibrated(float(problem.loss.curvature(g).mean()) / spread, "residual variance of the fit")


def degrees_of_freedom(problem: GeneralizedPosterior, g: Array, S: Array) -> float:
    """tr(omega Phi' W Phi S)."""
    weighted = problem.basis * problem.loss.curvature(g)[:, None]
    return float(problem.omega * np.einsum("ij,ij->", problem.basis.T @ weighted, S))


def robust_covariance(problem: GeneralizedPosterior, groups: Array | None) -> tuple[Array, Array, Array]:
    """Mode b, S and S_rob = S (P + omega^2 J) S: the prior's part P and the sampling part, whatever the noise.

    J = n / (n - df) Phi' diag(scores^2) Phi, by sums over clusters.
    """
    beta, S = mode(problem)
    g = problem.g(beta)
    n = len(g)
    scores = cluster_sums(problem.basis * problem.loss.slope(g)[:, None], groups)
    J = n / max(n - degrees_of_freedom(problem, g, S), 1.0) * scores.T @ scores
    prior = np.diag(problem.density.precision(beta))
    covariance = S @ (prior + problem.omega**2 * J) @ S
    return beta, S, 0.5 * (covariance + covariance.T)


def pointwise_variance(basis: Array, covariance: Array) -> Array:
    """diag(Phi S Phi'), (n,)."""
    found: Array = np.einsum("ij,jk,ik->i", basis, covariance, basis, optimize=True)
    return found


def match_variance(problem: GeneralizedPosterior, target: float, around: float) -> float:
    """The omega whose posterior has this mean pointwise variance, by bisection of log omega."""

    def excess(log_omega: float) -> float:
        tried = problem.at(float(np.exp(log_omega)))
        return float(pointwise_variance(problem.basis, mode(tried)[1]).mean()) - target

    return float(np.exp(bisect(excess, np.log(around) - 6.0, np.log(around) + 6.0, 30)))


def bisect(decreasing: Callable[[float], float], low: float, high: float, steps: int) -> float:
    """The largest point found at which a decreasing function is not negative; `low` where it is nowhere."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if decreasing(middle) >= 0:
            low = middle
        else:
            high = middle
    return low


def bootstrap_losses(evidence: Evidence, replicates: int, again: bool) -> list[RowLoss]:
    """The loss under Dirichlet row weights (mean 1; one weight a cluster), its nuisances fitted `again` or kept."""
    n, groups = len(evidence.problem.offset), evidence.groups
    found = []
    for replicate in range(replicates):
        generator = numpy_generator(evidence.seed, "bootstrap", replicate)
        if groups is None:
            weights = generator.exponential(size=n)
        else:
            _, number = np.unique(groups, return_inverse=True)
            weights = generator.exponential(size=int(number.max()) + 1)[number]
        found.append(evidence.refit(weights / weights.mean(), again))
    return found


def with_loss(problem: GeneralizedPosterior, loss: RowLoss) -> GeneralizedPosterior:
    return replace(problem, loss=loss)
