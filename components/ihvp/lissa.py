"""LiSSA: the damped Neumann series."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from raycipe.components.ihvp._square import Track, largest_singular_value, norm, require_square
from raycipe.framework.arguments import Count, NonNegative, Positive, Range
from raycipe.framework.contracts import InverseHVP, Solved, System
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator

ENDLESS = 1e30  # a norm beyond it: the series diverges


@register
class Lissa(InverseHVP):
    """LiSSA: Richardson's iteration on the damped curvature; the usual solver of influence functions.

    x_{j+1} = x_j + eta (b - (A + d I) x_j), x_0 = 0. It converges to (A + d I)⁻¹ b if every eigenvalue of A + d I is
    positive, and grows without bound otherwise; a large d lets it converge, to something else than A⁻¹ b.

    Args:
        max_hvp: products with the curvature for one repeat, beside those for the step length
        damping: d; must exceed the size of the most negative eigenvalue
        scale: eta; null takes 1 / (1.1 · |lambda|_max + d)
        batch_size: examples of a new draw at each step; null takes all of them
        repeats: solutions with draws of their own, averaged
        power_iters: iterations for |lambda|_max, a product each
        seed: of the draws

    Reference:
        N. Agarwal, B. Bullins, E. Hazan, Second-Order Stochastic Optimization for Machine Learning in Linear Time,
        JMLR 2017; P. W. Koh, P. Liang, Understanding Black-box Predictions via Influence Functions, ICML 2017.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: influence, forget: {type: one_class, label: 3}, ihvp: {type: lissa, max_hvp: 40}}
    """

    def __init__(
        self,
        max_hvp: Count = 200,
        damping: NonNegative = 0.01,
        scale: Positive | None = None,
        batch_size: Count | None = None,
        repeats: Annotated[int, Range(ge=1, le=1000)] = 1,
        power_iters: Count = 20,
        seed: Annotated[int, Range(ge=0, le=2**32 - 1)] = 0,
    ) -> None:
        self.max_hvp = max_hvp
        self.damping = damping
        self.scale = scale
        self.batch_size = batch_size
        self.repeats = repeats
        self.power_iters = power_iters
        self.seed = seed

    def solve(self, system: System, b: Tensor) -> Solved:
        require_square(system, "lissa")
        eta = self.scale
        if eta is None:
            eta = 1 / (1.1 * largest_singular_value(system, b, self.power_iters, self.seed) + self.damping or 1.0)
        generator = torch_generator(self.seed, "lissa")
        repeats = 1 if self.batch_size is None else self.repeats
        found = [self._once(system, b, eta, generator) for _ in range(repeats)]
        x = torch.stack([each.x for each in found]).mean(dim=0)
        diverged = any(each.reason == "diverged" for each in found)
        history = [row for each in found for row in each.history]
        return Solved(x, self.max_hvp * repeats, False, "diverged" if diverged else "budget", history)

    def _once(self, system: System, b: Tensor, eta: float, generator: torch.Generator) -> Solved:
        """The last iterate, or the one of the smallest residual where the series diverges."""
        track = Track(system, b)
        x = best = torch.zeros_like(b)
        lowest = math.inf
        for step in range(self.max_hvp):
            drawn = system if self.batch_size is None else system.sample(self.batch_size, generator)
            residual = b - drawn.product(x)
            found = track.add(step, residual)
            if found < lowest:
                best, lowest = x, found
            x = x + eta * (residual - self.damping * x)
            if not math.isfinite(norm(x)) or norm(x) > ENDLESS:
                return Solved(best, step, False, "diverged", track.rows)
        return Solved(x, self.max_hvp, False, "budget", track.rows)
