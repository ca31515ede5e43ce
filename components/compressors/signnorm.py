"""Signs with one size a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import torch
from torch import Tensor

from raycipe.components.compressors import _values
from raycipe.components.compressors._bits import pack_flags, packed_bytes, unpack_flags
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Compressor, Draw, Plan, State
from raycipe.framework.registry import register

TILE = 1 << 18  # entries worked on at a time, so that what is in between stays in the cache


@register
class Signnorm(Compressor):
    """Signs, scaled: C(v) = |v|_1 / B · sign(v) on blocks of B entries, with sign(0) = +1.

    One bit an entry and 32 a block: 1/32 of full precision. The contraction factor of a vector is |v|_1² / (B |v|_2²):
    2/pi = 0.64 for Gaussian ones, 1/B in the worst case of a single entry.

    Args:
        block: entries that share a size, a multiple of 8; a short last block has its own

    Reference:
        S. P. Karimireddy et al., Error Feedback Fixes SignSGD and Other Gradient Compression Schemes, ICML 2019.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: ef_sgd, lr: 0.1, compressor: signnorm}
    """

    def __init__(self, block: Annotated[int, Range(ge=8, le=10**9)] = 4096) -> None:
        if block % 8:
            raise ValueError(f"block: must be a multiple of 8, not {block}")
        self.block = block

    def plan(self, numel: int, shapes: Sequence[Sequence[int]] = ()) -> Plan:
        blocks = -(-numel // self.block)
        return Plan(numel, tuple(map(tuple, shapes)), 4 * blocks + packed_bytes(numel, 1))

    def _parts(self, numel: int) -> Iterator[tuple[int, int, int]]:
        """(start, rows, width): tiles of whole blocks, and the rest."""
        whole, height = numel // self.block, max(1, TILE // self.block)
        for row in range(0, whole, height):
            yield row * self.block, min(height, whole - row), self.block
        if numel % self.block:
            yield whole * self.block, 1, numel % self.block

    def encode_(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, body: Tensor) -> None:
        scales, signs = body[: -packed_bytes(plan.numel, 1)], body[-packed_bytes(plan.numel, 1) :]
        for start, rows, width in self._parts(plan.numel):
            block = tensor[start : start + rows * width].view(rows, width)
            scale = _values.rounded(block.abs().mean(1), torch.float32)
            first = 4 * (start // self.block)
            scales[first : first + 4 * rows].copy_(_values.as_bytes(scale))
            positive = block >= 0
            pack_flags(positive.view(-1), signs[start // 8 : start // 8 + packed_bytes(rows * width, 1)])
            block.sub_(_signed(positive, scale, tensor.dtype))

    def decode_(self, body: Tensor, plan: Plan, out: Tensor, weight: float = 1.0) -> None:
        scales, signs = body[: -packed_bytes(plan.numel, 1)], body[-packed_bytes(plan.numel, 1) :]
        for start, rows, width in self._parts(plan.numel):
            first = 4 * (start // self.block)
            scale = _values.from_bytes(scales[first : first + 4 * rows], torch.float32)
            data = signs[start // 8 : start // 8 + packed_bytes(rows * width, 1)]
            positive = unpack_flags(data, rows * width).view(rows, width)
            out[start : start + rows * width].view(rows, width).add_(_signed(positive, scale, out.dtype), alpha=weight)

    def alpha(self, plan: Plan) -> float:
        return 1.0 / min(self.block, plan.numel)


def _signed(positive: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """+scale where positive, else -scale; (rows, width)."""
    size = scale.to(dtype).unsqueeze(1)
    return positive.to(dtype).mul_(2).sub_(1).mul_(size)
