"""Langevin dynamics on minibatches."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from raycipe.components.posteriors import _chains as chains_
from raycipe.framework.arguments import Count, Positive, Range
from raycipe.framework.contracts import GeneralizedPosterior, Posterior, Solution
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

DECAY = 0.55  # of the step: a (b + t)^-0.55


@register
class Sgld(Posterior):
    """Stochastic gradient Langevin dynamics: steps along the gradient of a minibatch, and noise of their size.

    z' = z + eps_t / 2 * grad log p(z) + sqrt(eps_t) xi in coordinates whitened at the mode, eps_t = a (b + t)^-0.55.
    Draws are taken in proportion to their steps. For data too large for whole gradients; otherwise nuts is exact and
    faster.

    Args:
        chains: one after the other
        steps: of each chain; the first quarter is thrown away
        batch_size: rows of a minibatch; small ones widen the posterior by their own noise
        a: size of the steps
        b: steps until they begin to shrink

    Reference:
        M. Welling, Y. W. Teh, Bayesian Learning via Stochastic Gradient Langevin Dynamics, ICML 2011.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, posterior: {type: sgld, steps: 4000, batch_size: 100}}
    """

    def __init__(
        self,
        chains: Annotated[int, Range(ge=2, le=1000)] = 4,
        steps: Annotated[int, Range(ge=100, le=10**8)] = 20_000,
        batch_size: Count = 256,
        a: Positive = 4.0,
        b: Annotated[float, Range(ge=1)] = 200.0,
    ) -> None:
        self.chains = chains
        self.steps = steps
        self.batch_size = batch_size
        self.a = a
        self.b = b

    def solve(self, problem: GeneralizedPosterior, draws: int, seed: int) -> Solution:
        target = chains_.whiten(problem)
        generator = numpy_generator(seed, "posterior")
        n, warmup = len(problem.offset), self.steps // 4
        size = min(self.batch_size, n)
        sizes = self.a * (self.b + np.arange(self.steps)) ** -DECAY
        found = []
        for start in chains_.starts(self.chains, len(target.centre), seed):
            z, path = start, np.zeros((self.steps, len(start)))
            for step, eps in enumerate(sizes):
                rows = generator.integers(n, size=size)
                beta = target.beta(z)
                basis = problem.basis[rows]
                slope = problem.loss.rows(rows).slope(problem.offset[rows] + basis @ beta)
                gradient = problem.density.gradient(beta) - problem.omega * n / size * basis.T @ slope
                noise = np.sqrt(eps) * generator.standard_normal(len(z))
                z = z + 0.5 * eps * target.scale.T @ gradient + noise
                path[step] = z
            share = np.cumsum(sizes[warmup:]) / sizes[warmup:].sum()
            wanted = (np.arange(-(-draws // self.chains)) + 0.5) * self.chains / draws
            found.append(path[warmup + np.searchsorted(share, np.minimum(wanted, 1 - 1e-12))])
        return chains_.solution(target.beta(np.stack(found)), {})
