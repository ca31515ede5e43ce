"""One compressor on what another one keeps."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from raycipe.components.compressors._sparse import Sparse
from raycipe.framework.contracts import Compressor, Draw, Plan, State
from raycipe.framework.registry import register


@register
class Compose(Compressor):
    """Keeps some entries with `first`, and sends these through `then`: C(v) = then(v on the kept entries).

    The errors of the two are orthogonal, so that E|C(v) - v|² = |v|² - a2 |kept|², where a2 is the factor of `then`:
    the contraction factor is at least the product of both. The payload is that of `then` for the kept entries, and the
    places of `first`.

    Args:
        first: topk or randk (unscaled); the format of its values is not used
        then: what sends the values that are kept

    Reference:
        D. Basu et al., Qsparse-local-SGD, NeurIPS 2019.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer:
          type: ef_sgd
          compressor: {type: compose, first: {type: topk, ratio: 0.1}, then: {type: qsgd, norm: linf}}
    """

    def __init__(self, first: Compressor, then: Compressor) -> None:
        if not isinstance(first, Sparse) or getattr(first, "scaled", False):
            raise ValueError(
                f"first: must keep some entries as they are (topk, or randk unscaled), not {first.type_name}"
            )
        self.first, self.then = first, then

    def plan(self, numel: int, shapes: Sequence[Sequence[int]] = ()) -> Plan:
        outer = self.first.plan(numel, shapes)
        inner = self.then.plan(self._sparse.kept(outer))
        return Plan(numel, outer.shapes, inner.body_bytes + self._sparse.place_bytes(outer), (outer, inner))

    @property
    def _sparse(self) -> Sparse:
        assert isinstance(self.first, Sparse)  # the constructor's check
        return self.first

    def sends(self, draw: Draw) -> bool:
        return self.first.sends(draw) and self.then.sends(draw)

    def encode_(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, body: Tensor) -> None:
        outer, inner = plan.layout
        positions = self._sparse.choose(tensor, outer, draw, body[inner.body_bytes :])
        kept = tensor[positions]
        self.then.encode_(kept, inner, draw, state, body[: inner.body_bytes])
        tensor[positions] = kept

    def decode_(self, body: Tensor, plan: Plan, out: Tensor, weight: float = 1.0) -> None:
        outer, inner = plan.layout
        positions = self._sparse.positions(body[inner.body_bytes :], outer)
        kept = out.new_zeros(inner.numel)
        self.then.decode_(body[: inner.body_bytes], inner, kept)
        out.index_add_(0, positions, kept, alpha=weight)

    def alpha(self, plan: Plan) -> float | None:
        outer, inner = plan.layout
        first, then = self.first.alpha(outer), self.then.alpha(inner)
        return None if first is None or then is None else first * then

    def omega(self, plan: Plan) -> float | None:
        return self.then.omega(plan.layout[1])

    def expected_bytes(self, plan: Plan) -> float:
        inner = plan.layout[1]
        return (self.then.expected_bytes(inner) / inner.payload_bytes) * plan.payload_bytes
