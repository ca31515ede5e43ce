"""One fit of a generalized posterior: cross-fitting, loss, learning rate, posterior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from raycipe.components.calibrations import _rates as rates
from raycipe.components.estimators._causal_sample import Overlap, largest_folds, make_folds, overlap
from raycipe.components.losses._rows import Quadratic
from raycipe.components.posteriors._normal import normal_draws, root
from raycipe.components.priors._densities import Whitened
from raycipe.framework.contracts import (
    Calibrated,
    Calibration,
    CausalLoss,
    Density,
    Estimand,
    Evidence,
    GeneralizedPosterior,
    Nuisance,
    Nuisances,
    Posterior,
    Prior,
    RowLoss,
    Sample,
    Solution,
)
from raycipe.framework.contracts.causal import FanOut

Array = np.ndarray
PROBABILITIES = ("e", "z")


@dataclass(frozen=True)
class Parts:
    """The components of an estimator."""

    estimand: Estimand
    loss: CausalLoss
    nuisance: Nuisance
    prior: Prior
    calibration: Calibration
    posterior: Posterior


@dataclass(frozen=True)
class Fit:
    """What one round of cross-fitting gave."""

    sample: Sample  # after trimming
    eta: Mapping[str, Array]  # as plugged in
    raw: Mapping[str, Array]  # as estimated
    nuisances: Nuisances
    folds: Array
    problem: GeneralizedPosterior
    density: Density
    calibrated: Calibrated
    solution: Solution
    overlap: Overlap | None
    effect_basis: Callable[[Array], tuple[Array, Array]]  # further X → basis (n, p), offset (n,)
    seconds: Mapping[str, float]


def fit_once(
    parts: Parts,
    sample: Sample,
    *,
    seed: int,
    level: float,
    draws: int,
    trim: bool = False,
    folds: Array | None = None,
    fan_out: FanOut = map,
) -> Fit:
    """The steps of the paper in their order. `folds` may be given; else they are drawn."""
    import time

    began = time.perf_counter()
    estimand, loss, nuisance = parts.estimand, parts.loss, parts.nuisance
    arm = getattr(estimand, "level", None)
    if folds is None:
        count = largest_folds(sample, nuisance.folds, estimand.design)
        folds = make_folds(sample, count, nuisance.stratify, estimand.design, seed, arm)
    level_of_interest = 1.0 if arm is None else float(arm)
    nuisances = nuisance.fit(sample, estimand.design, folds, seed, level_of_interest, fan_out)
    raw = nuisances.values
    seen = overlap_of(raw, sample, loss.clip, arm, estimand.type_name)
    if trim and "e" in raw:
        kept = (raw["e"] >= loss.clip) & (raw["e"] <= 1 - loss.clip)
        sample, folds, raw = sample.rows(kept), folds[kept], {name: values[kept] for name, values in raw.items()}
    eta = clipped(raw, loss.clip)
    fitted = time.perf_counter()

    rows = weighted_loss(estimand, loss, sample, eta)
    density = parts.prior.bind(estimand.covariates(sample), sample.y, seed)
    problem, density, effect_basis = problem_of(parts, sample, rows, density, eta, nuisances)

    def refit(weights: Array, again: bool) -> RowLoss:
        whole = replace(sample, weights=weights if sample.weights is None else weights * sample.weights)
        values = eta
        if again:
            values = clipped(nuisance.fit(whole, estimand.design, folds, seed, level_of_interest).values, loss.clip)
        return weighted_loss(estimand, loss, whole, values)

    evidence = Evidence(
        problem=problem,
        is_function=density.size > 1,
        orthogonal=loss.is_orthogonal,
        groups=sample.groups,
        seed=seed,
        level=level,
        variance=float(sample.y.var()),
        refit=refit,
    )
    calibrated = parts.calibration.rate(evidence)
    if not (np.isfinite(calibrated.omega) and calibrated.omega > 0):
        words = f"{parts.calibration.type_name} gives the learning rate {calibrated.omega}"
        raise ValueError(f"calibration: {words}, which is no positive number")
    problem = problem.at(calibrated.omega)
    solution = parts.posterior.solve(problem, draws, seed)
    if parts.calibration.shape == "robust" and evidence.is_function:
        solution = reshaped(solution, problem, sample.groups, draws, seed)
    ended = time.perf_counter()
    seconds = {"nuisances": fitted - began, "posterior": ended - fitted}
    return Fit(sample, eta, raw, nuisances, folds, problem, density, calibrated, solution, seen, effect_basis, seconds)


def clipped(values: Mapping[str, Array], clip: float) -> dict[str, Array]:
    """Probabilities within [clip, 1 - clip]."""
    return {
        name: np.clip(column, clip, 1 - clip) if name in PROBABILITIES and clip > 0 else column
        for name, column in values.items()
    }


def overlap_of(
    raw: Mapping[str, Array], sample: Sample, clip: float, arm: float | None, estimand: str
) -> Overlap | None:
    if "e" in raw:
        chosen = sample.treatment if arm is None else (sample.treatment == arm).astype(np.float64)
        return overlap(raw["e"], chosen, clip, estimand)
    return overlap(raw["z"], sample.instrument, clip) if "z" in raw and sample.instrument is not None else None


def weighted_loss(estimand: Estimand, loss: CausalLoss, sample: Sample, eta: Mapping[str, Array]) -> RowLoss:
    """The loss of every row, by the sample's weights; a quadratic one signed so that its mean curvature is positive."""
    rows = estimand.row_loss(loss, sample, eta)
    if sample.weights is not None:
        rows = rows.weighted(sample.weights)
    if isinstance(rows, Quadratic) and rows.w.mean() < 0:  # an instrument that makes treatment rarer
        rows = Quadratic(-rows.w, -rows.w_phi)
    return rows


def problem_of(
    parts: Parts, sample: Sample, rows: RowLoss, density: Density, eta: Mapping[str, Array], nuisances: Nuisances
) -> tuple[GeneralizedPosterior, Density, Callable[[Array], tuple[Array, Array]]]:
    """The problem, its density, and the basis in which effects at further X are written.

    Where the loss joins arms, there are two functions, each with coefficients of its own: rows see that of their arm,
    effects are e(x) g0(x) + (1 - e(x)) g1(x).
    """
    estimand, loss = parts.estimand, parts.loss
    covariates = estimand.covariates(sample)
    basis, offset = density.basis(covariates), density.offset(covariates)
    if not loss.joins_arms:
        return (
            GeneralizedPosterior(rows, basis, offset, density),
            density,
            lambda X: (density.basis(estimand.at(X)), density.offset(estimand.at(X))),
        )
    both = Whitened(2 * density.size, density.basis)
    a = sample.treatment[:, None]
    whole = np.concatenate([(1 - a) * basis, a * basis], axis=1)

    def joined(X: Array) -> tuple[Array, Array]:
        assert nuisances.at is not None  # every nuisance with arms tells it
        e = clipped({"e": nuisances.at(X)["e"]}, loss.clip)["e"][:, None]
        one = density.basis(estimand.at(X))
        return np.concatenate([e * one, (1 - e) * one], axis=1), density.offset(estimand.at(X))

    return GeneralizedPosterior(rows, whole, offset, both), both, joined


def reshaped(
    solution: Solution, problem: GeneralizedPosterior, groups: Array | None, draws: int, seed: int
) -> Solution:
    """The posterior with the robust covariance: exactly where it is normal, else by the linear map of its draws."""
    _, S, robust = rates.robust_covariance(problem, groups)
    if solution.covariance is not None:
        drawn = normal_draws(solution.mean, robust, draws, seed)
        return replace(solution, covariance=robust, draws=drawn)
    back = np.linalg.pinv(root(S))
    moved = solution.mean + (solution.draws - solution.mean) @ back.T @ root(robust).T
    return replace(solution, draws=moved)


def weak_instrument(problem: GeneralizedPosterior) -> float:
    """|mean a| / se(mean a), the root of the first-stage F statistic."""
    assert isinstance(problem.loss, Quadratic)
    a = problem.loss.w
    return float(abs(a.mean()) / (a.std(ddof=1) / np.sqrt(len(a))))


def anderson_rubin(problem: GeneralizedPosterior, level: float) -> list[tuple[float, float]]:
    """The theta with n mean(psi)^2 <= chi2 Var(psi), psi = b - a theta: one interval, two half-lines, or all.

    It covers as often as it says however weak the instrument is, and may be unbounded.
    """
    from scipy import stats

    loss: Any = problem.loss
    a, b, n = loss.w, loss.w_phi, len(loss.w)
    limit = float(stats.chi2.ppf(level, 1))
    covariance = np.cov(np.stack([a, b]))
    second = n * a.mean() ** 2 - limit * covariance[0, 0]
    first = -2 * (n * a.mean() * b.mean() - limit * covariance[0, 1])
    zeroth = n * b.mean() ** 2 - limit * covariance[1, 1]
    discriminant = first**2 - 4 * second * zeroth
    if discriminant <= 0:
        return [(-np.inf, np.inf)]  # second < 0: the estimate itself always belongs to the set
    low, high = np.sort((-first + np.array([-1.0, 1.0]) * np.sqrt(discriminant)) / (2 * second)).tolist()
    return [(low, high)] if second > 0 else [(-np.inf, low), (high, np.inf)]
