"""Hamiltonian Monte Carlo."""

from __future__ import annotations

from typing import Annotated

from raycipe.components.posteriors import _chains as chains_
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import GeneralizedPosterior, Posterior, Solution
from raycipe.framework.registry import register


@register
class Hmc(Posterior):
    """Hamiltonian Monte Carlo, of the library mici, with paths of random length.

    For any prior and loss with a gradient. Chains start far apart, in coordinates whitened at the mode; their step size
    is adapted by dual averaging. R-hat, effective sample sizes and divergences are reported.

    Args:
        chains: as many as run one after the other
        warmup: steps of each that are thrown away
        target_accept: mean acceptance that the step size is adapted to; larger values take smaller steps
        max_leapfrog: steps of a path, drawn between 1 and this

    Reference:
        R. M. Neal, MCMC Using Hamiltonian Dynamics, 2011.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, loss: huber, posterior: {type: hmc, warmup: 200}}
    """

    def __init__(
        self,
        chains: Annotated[int, Range(ge=2, le=1000)] = 4,
        warmup: Annotated[int, Range(ge=50, le=10**6)] = 500,
        target_accept: Annotated[float, Range(gt=0, lt=1)] = 0.8,
        max_leapfrog: Annotated[int, Range(ge=2, le=1000)] = 16,
    ) -> None:
        self.chains = chains
        self.warmup = warmup
        self.target_accept = target_accept
        self.max_leapfrog = max_leapfrog

    def solve(self, problem: GeneralizedPosterior, draws: int, seed: int) -> Solution:
        from mici.samplers import RandomMetropolisHMC

        how = {"target_accept": self.target_accept, "sampler_kwargs": {"n_step_range": (1, self.max_leapfrog)}}
        return chains_.hamiltonian(problem, RandomMetropolisHMC, self.chains, self.warmup, draws, seed, **how)
