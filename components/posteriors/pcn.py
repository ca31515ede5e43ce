"""Random walks that leave the prior as it is."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from raycipe.components.posteriors import _chains as chains_
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import CausalLoss, GeneralizedPosterior, Posterior, Prior, Solution
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

WANTED = 0.3  # share of accepted steps


@register
class Pcn(Posterior):
    """The preconditioned Crank-Nicolson walk: steps that leave a normal prior as it is, accepted by the loss alone.

    beta' = mu + sqrt(1 - b^2) (beta - mu) + b D xi, accepted with probability exp(omega (loss(beta) - loss(beta'))).
    It needs no gradient, and does not slow down as the basis grows; b is adapted to 30 % acceptance in the warm-up.
    Where the data say much more than the prior, steps are small: take nuts.

    Args:
        chains: side by side
        warmup: steps of each that are thrown away
        thin: steps between two draws

    Reference:
        S. L. Cotter, G. O. Roberts, A. M. Stuart, D. White, MCMC Methods for Functions, Statistical Science 2013.

    Recipe:
        data: {type: causal_dgp, examples: 100}
        estimator: {type: gbayes_causal, prior: {type: gaussian, sd: 0.5}, posterior: pcn}
    """

    def __init__(
        self,
        chains: Annotated[int, Range(ge=2, le=1000)] = 4,
        warmup: Annotated[int, Range(ge=50, le=10**7)] = 2000,
        thin: Annotated[int, Range(ge=1, le=10**6)] = 10,
    ) -> None:
        self.chains = chains
        self.warmup = warmup
        self.thin = thin

    def misfit(self, loss: CausalLoss, prior: Prior, is_scalar: bool) -> str | None:
        return None if prior.is_normal else f"pcn needs a normal prior, not {prior.type_name}: take nuts"

    def solve(self, problem: GeneralizedPosterior, draws: int, seed: int) -> Solution:
        if problem.density.normal is None:
            raise ValueError("posterior: pcn needs a normal prior: take nuts")
        mean, sd = problem.density.normal
        generator = numpy_generator(seed, "posterior")
        log_density, _ = chains_.summed(problem)

        def fit(beta: np.ndarray) -> float:  # what the data say: the log density without the prior's
            return log_density(beta) - float(problem.density.log_density(beta))

        count = -(-draws // self.chains)
        found = np.zeros((self.chains, count, len(mean)))
        accepted = 0
        for chain, start in enumerate(chains_.whiten(problem).beta(chains_.starts(self.chains, len(mean), seed))):
            beta, value, log_b = start, fit(start), np.log(0.2)
            for step in range(self.warmup + count * self.thin):
                b = float(np.exp(log_b))
                proposal = mean + np.sqrt(1 - b**2) * (beta - mean) + b * sd * generator.standard_normal(len(mean))
                new = fit(proposal)
                is_accepted = np.log(generator.uniform()) < new - value
                if is_accepted:
                    beta, value = proposal, new
                if step < self.warmup:
                    log_b = min(log_b + (is_accepted - WANTED) / np.sqrt(step + 1), np.log(0.999))
                    continue
                accepted += is_accepted
                found[chain, (step - self.warmup) // self.thin] = beta
        return chains_.solution(found, {"acceptance": float(accepted) / (self.chains * count * self.thin)})
