"""The loss-likelihood bootstrap."""

from __future__ import annotations

import numpy as np

from raycipe.components.calibrations._rates import with_loss
from raycipe.components.posteriors._newton import mode
from raycipe.framework.contracts import GeneralizedPosterior, Posterior, Solution
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class Bootstrap(Posterior):
    """The loss-likelihood bootstrap: each draw minimizes the loss under random row weights (Dirichlet), with the prior.

    beta_b = argmax log prior(beta) - omega sum_i xi_i loss_i(g_i), xi ~ Dirichlet(1, ..., 1) with mean 1. Its spread
    comes from the data whatever the learning rate; the rate only weighs data against prior.

    Reference:
        S. P. Lyddon, C. C. Holmes, S. G. Walker, General Bayesian Updating and the Loss-Likelihood Bootstrap, 2019.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, posterior: bootstrap, draws: 500}
    """

    def solve(self, problem: GeneralizedPosterior, draws: int, seed: int) -> Solution:
        generator = numpy_generator(seed, "posterior")
        centre = mode(problem)[0]
        found = np.zeros((draws, len(centre)))
        for number in range(draws):
            weights = generator.exponential(size=len(problem.offset))
            found[number] = mode(with_loss(problem, problem.loss.weighted(weights / weights.mean())), centre)[0]
        return Solution(found, found.mean(axis=0))
