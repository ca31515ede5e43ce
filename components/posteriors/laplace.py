"""The normal approximation at the mode."""

from __future__ import annotations

from raycipe.components.posteriors._newton import mode
from raycipe.components.posteriors._normal import normal_draws
from raycipe.framework.contracts import GeneralizedPosterior, Posterior, Solution
from raycipe.framework.registry import register


@register
class Laplace(Posterior):
    """Laplace's approximation: normal around the posterior's mode, with the inverse of its curvature as covariance.

    The mode is found by Newton's method with halved steps. Exact for a quadratic loss and a normal prior.

    Reference:
        L. Tierney, J. B. Kadane, Accurate Approximations for Posterior Moments and Marginal Densities, JASA 1986.

    Recipe:
        data: {type: causal_dgp, name: dgp7, examples: 300}
        estimator: {type: gbayes_causal, loss: huber, posterior: laplace}
    """

    def solve(self, problem: GeneralizedPosterior, draws: int, seed: int) -> Solution:
        beta, covariance = mode(problem)
        return Solution(normal_draws(beta, covariance, draws, seed), beta, covariance)
