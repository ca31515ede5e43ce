"""Hamiltonian Monte Carlo that chooses its own path lengths."""

from __future__ import annotations

from typing import Annotated

from raycipe.components.posteriors import _chains as chains_
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import GeneralizedPosterior, Posterior, Solution
from raycipe.framework.registry import register


@register
class Nuts(Posterior):
    """The no-U-turn sampler, of the library mici: Hamiltonian Monte Carlo that chooses its own path lengths.

    For any prior and loss with a gradient. Chains start far apart, in coordinates whitened at the mode; their step size
    is adapted by dual averaging. R-hat, effective sample sizes and divergences are reported.

    Args:
        chains: as many as run one after the other
        warmup: steps of each that are thrown away
        target_accept: mean acceptance that the step size is adapted to; larger values take smaller steps
        max_depth: of the binary tree: at most 2^depth steps a draw

    Reference:
        M. D. Hoffman, A. Gelman, The No-U-Turn Sampler, JMLR 2014.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, loss: huber, posterior: {type: nuts, warmup: 200}}
    """

    def __init__(
        self,
        chains: Annotated[int, Range(ge=2, le=1000)] = 4,
        warmup: Annotated[int, Range(ge=50, le=10**6)] = 500,
        target_accept: Annotated[float, Range(gt=0, lt=1)] = 0.8,
        max_depth: Annotated[int, Range(ge=1, le=20)] = 8,
    ) -> None:
        self.chains = chains
        self.warmup = warmup
        self.target_accept = target_accept
        self.max_depth = max_depth

    def solve(self, problem: GeneralizedPosterior, draws: int, seed: int) -> Solution:
        from mici.samplers import DynamicMultinomialHMC

        how = {"target_accept": self.target_accept, "sampler_kwargs": {"max_tree_depth": self.max_depth}}
        return chains_.hamiltonian(problem, DynamicMultinomialHMC, self.chains, self.warmup, draws, seed, **how)
