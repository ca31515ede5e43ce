"""Gradients with added noise."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from raycipe.framework.arguments import Positive, Range, default
from raycipe.framework.contracts import Estimate, GradientEstimator, Problem
from raycipe.framework.registry import register


@register
class Noisy(GradientEstimator):
    """Gradients with independent noise on each entry: what clipping has to bear, in a pure form.

    g + scale e, E e = 0; e is standard normal, or has heavy tails: |e| >= t with a probability of about t^-tail.

    Args:
        kind: gauss; student: Student's t with `tail` degrees of freedom; pareto: a random sign times (Pareto - 1)
        scale: size of the noise: its standard deviation for gauss, the spread of t or Pareto else
        tail: how heavy the tail is: moments of this order and above are infinite (student, pareto)
        base: where the gradient comes from

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 0.02, gradients: {type: noisy, kind: student, scale: 0.01}}
    """

    def __init__(
        self,
        kind: Literal["gauss", "student", "pareto"] = "gauss",
        scale: Positive = 1.0,
        tail: Annotated[float, Range(gt=1, le=100)] = 3.0,
        base: GradientEstimator = default("exact"),
    ) -> None:
        self.kind = kind
        self.scale = scale
        self.tail = tail
        self.base = base
        self.uses_gradients = base.uses_gradients
        self.whole_batch = base.whole_batch

    def nested(self) -> Iterable[GradientEstimator]:
        return (self.base,)

    def estimate(self, problem: Problem, w: Tensor, v: Tensor, players: str = "wv") -> Estimate:
        found = self.base.estimate(problem, w, v, players)
        noise_w, noise_v = (problem.random("noisy", partial(self._draw, x)) for x in (w, v))
        return Estimate(found.w + self.scale * noise_w, found.v + self.scale * noise_v, found.info)

    def _draw(self, like: Tensor, generator: torch.Generator) -> Tensor:
        size, kind = like.shape[-1:], {"dtype": torch.float64, "device": like.device}
        if self.kind == "gauss":
            noise = torch.randn(size, generator=generator, **kind)  # type: ignore[call-overload]
        elif self.kind == "student":
            normal = torch.randn(size, generator=generator, **kind)  # type: ignore[call-overload]
            shape = torch.full(size, self.tail / 2, **kind)  # type: ignore[call-overload]
            noise = normal * (self.tail / (2 * torch._standard_gamma(shape, generator=generator))).sqrt()
        else:
            uniform = 1 - torch.rand(size, generator=generator, **kind)  # type: ignore[call-overload]
            sign = torch.randint(2, size, generator=generator, device=like.device) * 2 - 1
            noise = sign * (uniform ** (-1 / self.tail) - 1)
        return noise.to(like.dtype)
