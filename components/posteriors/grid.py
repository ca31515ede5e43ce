"""The posterior of one number on a grid."""

from __future__ import annotations

import numpy as np

from raycipe.components.calibrations import _rates as rates
from raycipe.components.losses._rows import Quadratic
from raycipe.components.priors._densities import SpikeSlab
from raycipe.framework.contracts import CausalLoss, GeneralizedPosterior, Posterior, Prior, Solution
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

POINTS = 4001
REACH = 12.0  # standard deviations
NEGLIGIBLE = 40.0  # of a log density below its maximum


@register
class Grid(Posterior):
    """The posterior of a scalar with any prior and loss, from the density at 4001 points: exact to 1e-6.

    A first grid finds where the posterior is, a second one resolves it. Draws are its quantiles in random order. It
    knows the mass at 0 of spike_slab, and reports the posterior's as `spike`.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, prior: {type: student_t, scale: 0.2}, posterior: grid}
    """

    def misfit(self, loss: CausalLoss, prior: Prior, is_scalar: bool) -> str | None:
        return None if is_scalar else "grid is for one number: take conjugate, laplace or nuts"

    def solve(self, problem: GeneralizedPosterior, draws: int, seed: int) -> Solution:
        if problem.density.size != 1:
            raise ValueError("posterior: grid is for one number: take conjugate, laplace or nuts for a function")
        at, weight = resolve(problem)
        generator = numpy_generator(seed, "posterior")
        spike = spike_probability(problem, at)
        cumulative = np.cumsum(weight) - 0.5 * weight
        quantiles = (np.arange(draws) + 0.5) / draws
        found = np.interp(quantiles, cumulative, at)
        if spike:  # a share of the draws is the mass at 0
            found = found[np.linspace(0, draws - 1, max(1, round(draws * (1 - spike)))).astype(np.int64)]
            found = np.concatenate([found, np.zeros(draws - len(found))])
        mean = (1 - spike) * float(weight @ at)
        diagnostics = {"spike": spike} if isinstance(problem.density, SpikeSlab) else {}
        return Solution(generator.permutation(found)[:, None], np.array([mean]), None, diagnostics)


def log_density(problem: GeneralizedPosterior, at: np.ndarray) -> np.ndarray:
    """(m,): of a quadratic loss from its sums, of another row by row."""
    prior = problem.density.log_density(at[:, None])
    if isinstance(problem.loss, Quadratic):
        x = problem.basis[:, 0]
        second = float((problem.loss.w * x**2).sum())
        first = float(((problem.loss.w_phi - problem.loss.w * problem.offset) * x).sum())
        return prior - problem.omega * (0.5 * second * at**2 - first * at)
    losses = np.array([problem.loss.value(problem.g(np.array([theta]))).sum() for theta in at])
    return prior - problem.omega * losses


def resolve(problem: GeneralizedPosterior) -> tuple[np.ndarray, np.ndarray]:
    """Points (4001,) and their probabilities, where all but a negligible part of the posterior is."""
    n = len(problem.offset)
    theta, H, _ = rates.scalar_parts(problem.loss, None, n)
    sd = 1 / np.sqrt(n * problem.omega * H)
    centre = float(getattr(problem.density, "mean", 0.0))
    low, high = min(theta, centre) - REACH * sd, max(theta, centre) + REACH * sd
    for _ in range(4):
        at = np.linspace(low, high, POINTS)
        values = log_density(problem, at)
        there = np.flatnonzero(values > values.max() - NEGLIGIBLE)
        first, last = max(there[0] - 1, 0), min(there[-1] + 1, POINTS - 1)
        if last - first > 0.5 * POINTS:
            break
        low, high = at[first], at[last]
    weight = np.exp(values - values.max())
    return at, weight / weight.sum()


def spike_probability(problem: GeneralizedPosterior, at: np.ndarray) -> float:
    """The posterior probability of exactly 0; 0 for a prior without a mass there."""
    if not isinstance(problem.density, SpikeSlab):
        return 0.0
    from scipy.special import expit, logsumexp

    slab = float(logsumexp(log_density(problem, at))) + np.log(at[1] - at[0])
    # log_density of a quadratic loss is 0 at 0 but for the prior: so is its loss there.
    at_zero = (
        0.0 if isinstance(problem.loss, Quadratic) else problem.omega * float(problem.loss.value(problem.offset).sum())
    )
    return float(expit(np.log(problem.density.w0) - at_zero - slab))
