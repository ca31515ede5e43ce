"""The normal posterior in closed form."""

from __future__ import annotations

from raycipe.components.posteriors._normal import conjugate, normal_draws
from raycipe.framework.contracts import CausalLoss, GeneralizedPosterior, Posterior, Prior, Solution
from raycipe.framework.registry import register


@register
class Conjugate(Posterior):
    """The exact posterior with a quadratic loss and a normal prior: normal, in closed form.

    Precision = prior precision + omega Phi' W Phi; for a scalar 1 / s0^2 + n omega mean(w).

    Reference:
        P. G. Bissiri, C. C. Holmes, S. G. Walker, A General Framework for Updating Belief Distributions, JRSS B 2016.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, posterior: conjugate}
    """

    def misfit(self, loss: CausalLoss, prior: Prior, is_scalar: bool) -> str | None:
        if not (loss.is_quadratic and prior.is_normal):
            what = (
                f"the prior {prior.type_name} is not normal" if loss.is_quadratic else f"{loss.type_name} is no square"
            )
            return f"conjugate has no closed form, since {what}: take grid, laplace or nuts"
        return None

    def solve(self, problem: GeneralizedPosterior, draws: int, seed: int) -> Solution:
        mean, covariance = conjugate(problem)
        return Solution(normal_draws(mean, covariance, draws, seed), mean, covariance)
