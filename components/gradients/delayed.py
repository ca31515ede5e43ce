"""Gradients that come late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from raycipe.framework.arguments import Count
from raycipe.framework.contracts import Estimate, GradientEstimator, Point, Problem
from raycipe.framework.registry import register


@register
class Delayed(GradientEstimator):
    """The exact gradients at an earlier iterate, on the present batch: what an asynchronous worker contributes.

    g_t = grad F(w_{t - delay}, v_{t - delay}; z_t); in the first steps, at the start.

    Args:
        delay: steps by which the point is old

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 0.005, gradients: {type: delayed, delay: 2}}
    """

    def __init__(self, delay: Count = 1) -> None:
        self.delay = delay
        self.past: list[Point] = []  # oldest first

    def estimate(self, problem: Problem, w: Tensor, v: Tensor, players: str = "wv") -> Estimate:
        self.past.append((w, v))
        del self.past[: -(self.delay + 1)]
        return Estimate(*problem.gradients(*self.past[0]))

    def state(self) -> dict[str, Any]:
        return {"past": [[w, v] for w, v in self.past]}

    def load(self, state: Mapping[str, Any]) -> None:
        self.past = [(w, v) for w, v in state["past"]]
