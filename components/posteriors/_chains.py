"""Shared by the sampling posteriors: a problem in coordinates that suit samplers, and whether chains have mixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from raycipe.components.losses._rows import Quadratic
from raycipe.components.posteriors._newton import mode
from raycipe.components.posteriors._normal import root
from raycipe.framework.contracts import GeneralizedPosterior, Solution
from raycipe.framework.streams import numpy_generator

Array = np.ndarray
SPREAD = 2.0  # of the chains' starts, in posterior deviations: if they begin alike, they can't show a lack of mixing


class Whitened(NamedTuple):
    """beta = centre + scale @ z, with about unit covariance of z; densities are up to a constant."""

    centre: Array  # (p,)
    scale: Array  # (p, p)
    log_density: Callable[[Array], float]  # of z
    gradient: Callable[[Array], Array]

    def beta(self, z: Array) -> Array:
        """(..., p) → (..., p)."""
        found: Array = self.centre + z @ self.scale.T
        return found


def whiten(problem: GeneralizedPosterior) -> Whitened:
    """Around the mode, by the curvature there. A quadratic loss is summed over its rows once."""
    centre, covariance = mode(problem)
    scale = root(covariance)
    value, slope = summed(problem)

    def log_density(z: Array) -> float:
        return value(centre + scale @ z)

    def gradient(z: Array) -> Array:
        found: Array = scale.T @ slope(centre + scale @ z)
        return found

    return Whitened(centre, scale, log_density, gradient)


def summed(problem: GeneralizedPosterior) -> tuple[Callable[[Array], float], Callable[[Array], Array]]:
    """The log density and its gradient; (p, p) sums take the place of (n, p) rows where the loss is quadratic."""
    loss, density = problem.loss, problem.density
    if not isinstance(loss, Quadratic):
        return problem.log_density, problem.gradient
    weighted = problem.basis * loss.w[:, None]
    second = problem.omega * problem.basis.T @ weighted
    first = problem.omega * problem.basis.T @ (loss.w_phi - loss.w * problem.offset)

    def value(beta: Array) -> float:
        return float(density.log_density(beta) - 0.5 * beta @ second @ beta + first @ beta)

    def slope(beta: Array) -> Array:
        found: Array = density.gradient(beta) - second @ beta + first
        return found

    return value, slope


def starts(chains: int, size: int, seed: int) -> Array:
    """(chains, p), far apart."""
    found: Array = SPREAD * numpy_generator(seed, "starts").standard_normal((chains, size))
    return found


def solution(chains: Array, diagnostics: Mapping[str, float]) -> Solution:
    """From (chains, draws, p)."""
    pooled = chains.reshape(-1, chains.shape[2])
    return Solution(pooled, pooled.mean(axis=0), None, {**mixing(chains), **diagnostics})


def hamiltonian(
    problem: GeneralizedPosterior, sampler: Any, chains: int, warmup: int, draws: int, seed: int, **how: Any
) -> Solution:
    """Chains of one of mici's Hamiltonian samplers in whitened coordinates, the step size adapted in the warm-up."""
    import mici

    target = whiten(problem)
    _, traces, statistics = mici.sample_hmc_chains(
        n_warm_up_iter=warmup,
        n_main_iter=-(-draws // chains),
        init_states=list(starts(chains, len(target.centre), seed)),
        neg_log_dens=lambda z: -target.log_density(z),
        grad_neg_log_dens=lambda z: -target.gradient(z),
        seed=numpy_generator(seed, "posterior"),
        sampler_class=sampler,
        sampler_kwargs=how.pop("sampler_kwargs", {}),
        adapters=[mici.adapters.DualAveragingStepSizeAdapter(how.pop("target_accept"))],
        trace_funcs=[lambda state: {"z": state.pos}],
        display_progress=False,
    )
    z = np.stack([np.asarray(chain) for chain in traces["z"]])  # (chains, draws, p)
    accepted = float(np.mean([np.asarray(chain).mean() for chain in statistics["accept_stat"]]))
    broken = sum(float(np.asarray(chain).sum()) for chain in statistics.get("diverging", []))
    return solution(target.beta(z), {"acceptance": accepted, "divergences": broken})


# ---------------------------------------------------------------------------------------------- mixing


def mixing(chains: Array) -> dict[str, float]:
    """The worst coefficient's rank-normalized split R-hat, and bulk and tail effective sample sizes.

    From (chains, draws, p), as by A. Vehtari et al., Rank-Normalization, Folding, and Localization, 2021.
    """
    worst = {"r_hat": 1.0, "ess_bulk": np.inf, "ess_tail": np.inf}
    for number in range(chains.shape[2]):
        x = _split(chains[:, :, number])
        if x.std() == 0:
            continue
        z, folded = _normalize(x), _normalize(np.abs(x - np.median(x)))
        worst["r_hat"] = max(worst["r_hat"], r_hat(z), r_hat(folded))
        worst["ess_bulk"] = min(worst["ess_bulk"], effective(z))
        tails = [effective((x <= np.quantile(x, q)).astype(np.float64)) for q in (0.05, 0.95)]
        worst["ess_tail"] = min(worst["ess_tail"], *tails)
    most = chains.shape[0] * chains.shape[1]  # of a constant
    return {name: float(value if name == "r_hat" else min(value, most)) for name, value in worst.items()}


def _split(x: Array) -> Array:
    """(chains, draws) → (2 chains, draws / 2)."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _normalize(x: Array) -> Array:
    ranks = stats.rankdata(x).reshape(x.shape)
    found: Array = stats.norm.ppf((ranks - 0.375) / (x.size + 0.25))
    return found


def r_hat(x: Array) -> float:
    """sqrt of the pooled variance over the mean variance within chains, (chains, draws)."""
    n = x.shape[1]
    within = float(x.var(axis=1, ddof=1).mean())
    between = n * float(x.mean(axis=1).var(ddof=1))
    return float(np.sqrt(((n - 1) / n * within + between / n) / within)) if within > 0 else np.inf


def effective(x: Array) -> float:
    """Draws over the integrated autocorrelation time, by Geyer's initial monotone sequence, (chains, draws)."""
    m, n = x.shape
    centred = x - x.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * n, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n] / n
    within = float(covariance[:, 0].mean() * n / (n - 1))
    pooled = within * (n - 1) / n + float(x.mean(axis=1).var(ddof=1))
    if pooled == 0:
        return float(m * n)
    rho = 1 - (within - covariance.mean(axis=0)) / pooled
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0] if len(negative) else len(pairs)])
    time = max(2 * float(pairs.sum()) - 1, 1 / np.log10(m * n))
    return m * n / time
