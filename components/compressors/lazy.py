"""Another compressor, now and then."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from raycipe.components.compressors._random import coin
from raycipe.framework.arguments import Share
from raycipe.framework.contracts import Compressor, Draw, Plan, State
from raycipe.framework.registry import register


@register
class Lazy(Compressor):
    """Sends what another compressor sends with probability p, else nothing at all: C(v) = inner(v) or 0.

    All workers toss the same coin, so that a round that is left out costs no message. The contraction factor is p times
    the inner one, which reaches factors that the inner one can't. What is left out is so on all workers at once:
    nothing is averaged over them.

    Args:
        inner: what is sent
        p: probability of sending

    Reference:
        S. Horváth et al., Stochastic Distributed Learning with Gradient Quantization and Variance Reduction, 2019.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: ef_sgd, lr: 0.05, compressor: {type: lazy, inner: signnorm, p: 0.5}}
    """

    def __init__(self, inner: Compressor, p: Share = 0.5) -> None:
        self.inner, self.p = inner, p
        self.reducible, self.passes = inner.reducible, inner.passes

    def plan(self, numel: int, shapes: Sequence[Sequence[int]] = ()) -> Plan:
        return self.inner.plan(numel, shapes)

    def sends(self, draw: Draw) -> bool:
        return coin(draw.key("lazy", shared=True)) < self.p and self.inner.sends(draw)

    def encode_(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, body: Tensor) -> None:
        self.inner.encode_(tensor, plan, draw, state, body)

    def decode_(self, body: Tensor, plan: Plan, out: Tensor, weight: float = 1.0) -> None:
        self.inner.decode_(body, plan, out, weight)

    def of_rows(self, rows: Tensor, plan: Plan, draw: Draw) -> Tensor:
        return self.inner.of_rows(rows, plan, draw) if self.sends(draw) else torch.zeros_like(rows)

    def alpha(self, plan: Plan) -> float | None:
        inner = self.inner.alpha(plan)
        return None if inner is None else self.p * inner

    def omega(self, plan: Plan) -> float | None:
        return self.inner.omega(plan)

    def expected_bytes(self, plan: Plan) -> float:
        return self.p * self.inner.expected_bytes(plan)

    def match(self, alpha: float, numel: int) -> dict[str, object]:
        return self.inner.match(alpha, numel)

    def summand(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, part: int) -> Tensor:
        return self.inner.summand(tensor, plan, draw, state, part)

    def absorb_(
        self, mean: Tensor, tensor: Tensor, plan: Plan, draw: Draw, state: State, out: Tensor, part: int
    ) -> None:
        self.inner.absorb_(mean, tensor, plan, draw, state, out, part)
