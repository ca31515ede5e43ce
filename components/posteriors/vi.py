"""The normal distribution closest to the posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from raycipe.components.posteriors import _chains as chains_
from raycipe.components.posteriors._newton import mode
from raycipe.components.posteriors._normal import normal_draws
from raycipe.framework.arguments import Count, Positive
from raycipe.framework.contracts import GeneralizedPosterior, Posterior, Solution
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

SAMPLES = 16  # of the gradient, a step
SMALLEST = 1e-6


@register
class Vi(Posterior):
    """Variational inference: the normal distribution with the least Kullback-Leibler divergence to the posterior.

    Maximizes E_q[log p(beta)] + entropy(q), q = N(m, C C'), by Adam on reparameterized gradients, from Laplace's
    approximation. mean_field leaves the coefficients independent, and so understates their deviations.

    Args:
        family: full_rank has correlations, mean_field has none
        steps: of Adam
        lr: of Adam, in posterior deviations; it falls to zero over the steps

    Reference:
        D. M. Blei, A. Kucukelbir, J. D. McAuliffe, Variational Inference: A Review for Statisticians, JASA 2017.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator: {type: gbayes_causal, loss: huber, posterior: {type: vi, steps: 500}}
    """

    def __init__(
        self, family: Literal["full_rank", "mean_field"] = "full_rank", steps: Count = 2000, lr: Positive = 0.03
    ) -> None:
        self.family = family
        self.steps = steps
        self.lr = lr

    def solve(self, problem: GeneralizedPosterior, draws: int, seed: int) -> Solution:
        target = chains_.whiten(problem)
        scale = target.scale
        if self.family == "mean_field":  # without rotation, which would make it full rank
            scale = np.diag(1 / np.sqrt(np.diag(np.linalg.inv(mode(problem)[1]))))
        _, slope = chains_.summed(problem)
        m, C = self.fit(lambda z: scale.T @ slope(target.centre + scale @ z), len(target.centre), seed)
        mean, factor = target.centre + scale @ m, scale @ C
        covariance = factor @ factor.T
        return Solution(normal_draws(mean, covariance, draws, seed), mean, covariance)

    def fit(self, gradient: Callable[[np.ndarray], np.ndarray], p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """m (p,) and lower triangular C (p, p) in whitened coordinates."""
        generator = numpy_generator(seed, "vi")
        m, C = np.zeros(p), np.eye(p)
        free = np.eye(p) if self.family == "mean_field" else np.tril(np.ones((p, p)))
        first, second = np.zeros((p, p + 1)), np.zeros((p, p + 1))
        for step in range(1, self.steps + 1):
            half = generator.standard_normal((SAMPLES // 2, p))
            xi = np.concatenate([half, -half])  # antithetic: the mean of a normal posterior is found without noise
            slopes = np.stack([gradient(m + C @ each) for each in xi])
            on_C = (slopes.T @ xi / SAMPLES + np.diag(1 / np.diag(C))) * free
            whole = np.concatenate([slopes.mean(axis=0)[:, None], on_C], axis=1)
            first = 0.9 * first + 0.1 * whole
            second = 0.999 * second + 0.001 * whole**2
            rate = self.lr * (1 - (step - 1) / self.steps)
            moved = rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            m = m + moved[:, 0]
            C = C + moved[:, 1:]
            np.fill_diagonal(C, np.maximum(np.diag(C), SMALLEST))
        return m, C
