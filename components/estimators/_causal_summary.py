"""Shared by the causal estimators: what posteriors say of effects, over one or several rounds of cross-fitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from raycipe.components.calibrations import _rates as rates
from raycipe.components.estimators._causal_fit import Fit

Array = np.ndarray
BLOCK = 4000  # rows whose draws are held at a time


class Summary(NamedTuple):
    """Posterior mean, deviation, credible interval and P(> 0) of one number."""

    mean: float
    sd: float
    low: float
    high: float
    positive: float


def normal_summary(mean: float, sd: float, level: float) -> Summary:
    from scipy import stats

    z = float(stats.norm.ppf(0.5 + level / 2))
    positive = float(stats.norm.cdf(mean / sd)) if sd > 0 else float(mean > 0)
    return Summary(mean, sd, mean - z * sd, mean + z * sd, positive)


def summarize(
    fits: Sequence[Fit], functionals: Sequence[Array], shifts: Sequence[float], level: float, combine: str
) -> Summary:
    """Of shift + functional' beta, one functional (p,) a fit. Fits are mixed, or joined by DML's median rule."""
    means = [float(s + f @ fit.solution.mean) for fit, f, s in zip(fits, functionals, shifts, strict=True)]
    if combine == "median" or len(fits) == 1:
        sds = []
        for fit, f in zip(fits, functionals, strict=True):
            cov = fit.solution.covariance
            sds.append(float(np.sqrt(f @ cov @ f)) if cov is not None else float((fit.solution.draws @ f).std(ddof=1)))
        if len(fits) > 1:
            middle = float(np.median(means))
            spread = np.median([sd**2 + (mean - middle) ** 2 for sd, mean in zip(sds, means, strict=True)])
            return normal_summary(middle, float(np.sqrt(spread)), level)
        if fits[0].solution.covariance is not None:
            return normal_summary(means[0], sds[0], level)
    pooled = np.concatenate([s + fit.solution.draws @ f for fit, f, s in zip(fits, functionals, shifts, strict=True)])
    low, high = np.quantile(pooled, [0.5 - level / 2, 0.5 + level / 2])
    return Summary(
        float(np.mean(means)), float(pooled.std(ddof=1)), float(low), float(high), float((pooled > 0).mean())
    )


def mean_at(fits: Sequence[Fit], X: Array) -> Array:
    """The posterior mean of the effect at each row, (n,)."""
    found = []
    for fit in fits:
        basis, offset = fit.effect_basis(X)
        found.append(offset + basis @ fit.solution.mean)
    mean: Array = np.mean(found, axis=0)
    return mean


def draws_at(fits: Sequence[Fit], X: Array, count: int | None = None) -> Array:
    """(draws, n), equally many of each fit."""
    found = []
    for fit in fits:
        basis, offset = fit.effect_basis(X)
        draws = fit.solution.draws if count is None else fit.solution.draws[: -(-count // len(fits))]
        found.append(offset + draws @ basis.T)
    return np.concatenate(found)[:count]


def deviation_at(fits: Sequence[Fit], X: Array) -> Array:
    """The posterior deviation of the effect at each row, (n,)."""
    if len(fits) == 1 and fits[0].solution.covariance is not None:
        basis, _ = fits[0].effect_basis(X)
        return np.sqrt(rates.pointwise_variance(basis, fits[0].solution.covariance))
    blocks = [draws_at(fits, X[start : start + BLOCK]).std(axis=0, ddof=1) for start in range(0, len(X), BLOCK)]
    return np.concatenate(blocks)


def interval_at(fits: Sequence[Fit], X: Array, level: float) -> tuple[Array, Array]:
    """Pointwise credible intervals, (n,) each: normal ones exactly, others by equal tails of the draws."""
    from scipy import stats

    if len(fits) == 1 and fits[0].solution.covariance is not None:
        half = float(stats.norm.ppf(0.5 + level / 2)) * deviation_at(fits, X)
        mean = mean_at(fits, X)
        return mean - half, mean + half
    ends = [0.5 - level / 2, 0.5 + level / 2]
    blocks = [np.quantile(draws_at(fits, X[at : at + BLOCK]), ends, axis=0) for at in range(0, len(X), BLOCK)]
    low, high = np.concatenate(blocks, axis=1)
    return low, high


def band_at(fits: Sequence[Fit], X: Array, level: float) -> tuple[Array, Array]:
    """A simultaneous band, mean ± q sd, q the level's quantile over draws of max_x |g(x) - mean(x)| / sd(x)."""
    mean, sd = mean_at(fits, X), deviation_at(fits, X)
    sd = np.maximum(sd, 1e-300)
    largest = np.abs((draws_at(fits, X) - mean) / sd).max(axis=1)
    q = float(np.quantile(largest, level))
    return mean - q * sd, mean + q * sd
