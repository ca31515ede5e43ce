"""Random rounding to a few levels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from raycipe.components.compressors import _values
from raycipe.components.compressors._bits import pack, packed_bytes, unpack
from raycipe.components.compressors._random import Bits15
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Compressor, Draw, Plan, State
from raycipe.framework.registry import register

TILE = 1 << 18  # entries worked on at a time, so that what is in between stays in the cache
MOST_LEVELS = 127


class Part(NamedTuple):
    """Entries `start` to `end` of the fragment as `rows` blocks of `width`; their codes begin at byte `at`."""

    start: int
    end: int
    rows: int
    width: int
    first_block: int
    at: int


@register
class Qsgd(Compressor):
    """QSGD: rounds each entry at random to one of 2s + 1 levels, right on average.

    In a block of B entries with norm N, C(v)_i = sign(v_i) · N/s · xi_i, where xi_i is s|v_i|/N rounded up with the
    probability of its fraction f, else down: E C(v) = v, E|C(v) - v|² = (N/s)² sum f (1 - f) <= omega |v|² with
    omega = min(B/s², sqrt(B)/s), or with the largest magnitude as norm min(B/(4s²), (1 + sqrt(B))/(2s)). Scaled by
    1/(1 + omega) it is a contraction with factor 1/(1 + omega), which error feedback needs where omega >= 1.

    Args:
        levels: s; an entry takes log2(2s + 1) bits, rounded up: 1 → 2 bits, 7 → 4, 127 → 8
        norm: l2, or linf, the largest magnitude, which wastes no level at the price of a larger bound for few levels
        block: entries with one norm; smaller blocks are more exact and send more norms (32 bits each)
        scaled: shrink by 1/(1 + omega)

    Reference:
        D. Alistarh et al., QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding, NeurIPS 2017.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: ef_sgd, lr: 0.1, compressor: {type: qsgd, levels: 7, norm: linf}}
    """

    def __init__(
        self,
        levels: Annotated[int, Range(ge=1, le=MOST_LEVELS)] = 7,
        norm: Literal["l2", "linf"] = "l2",
        block: Annotated[int, Range(ge=2, le=10**9)] = 512,
        scaled: bool = True,
    ) -> None:
        self.levels, self.norm, self.block, self.scaled = levels, norm, block, scaled

    # ------------------------------------------------------------------------------------------ sizes

    def plan(self, numel: int, shapes: Sequence[Sequence[int]] = ()) -> Plan:
        parts = tuple(self._parts(numel))
        norms = sum(part.rows for part in parts)
        body = 4 * norms + sum(packed_bytes(part.end - part.start, self.bits) for part in parts)
        return Plan(numel, tuple(map(tuple, shapes)), body, parts)

    def _parts(self, numel: int) -> Iterator[Part]:
        """Tiles of whole blocks, and the rest."""
        width = min(self.block, numel)
        whole = numel // width
        height = max(1, TILE // width)
        at = 4 * -(-numel // width)
        for row in range(0, whole, height):
            rows = min(height, whole - row)
            yield Part(row * width, (row + rows) * width, rows, width, row, at)
            at += packed_bytes(rows * width, self.bits)
        if numel % width:
            yield Part(whole * width, numel, 1, numel % width, whole, at)

    @property
    def bits(self) -> int:
        return (2 * self.levels).bit_length()

    # ------------------------------------------------------------------------------------------ codes

    def encode_(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, body: Tensor) -> None:
        source = Bits15(draw.key("qsgd"), tensor.device)
        shrink = self._shrink(plan)
        for part in plan.layout:
            block = tensor[part.start : part.end].view(part.rows, part.width)
            norm = self._norm(block)
            codes = quantize(block, norm, self.levels, source.draw(block.numel()))
            first = 4 * part.first_block
            body[first : first + 4 * part.rows].copy_(_values.as_bytes(norm))
            pack(codes.view(-1), self.bits, body[part.at : part.at + packed_bytes(block.numel(), self.bits)])
            block.sub_(dequantize(codes, norm, self.levels, shrink, tensor.dtype))

    def decode_(self, body: Tensor, plan: Plan, out: Tensor, weight: float = 1.0) -> None:
        shrink = self._shrink(plan)
        for part in plan.layout:
            count = part.end - part.start
            data = body[part.at : part.at + packed_bytes(count, self.bits)]
            codes = unpack(data, count, self.bits, torch.uint8).view(part.rows, part.width)
            first = 4 * part.first_block
            norm = _values.from_bytes(body[first : first + 4 * part.rows], torch.float32)
            values = dequantize(codes, norm, self.levels, shrink, out.dtype)
            out[part.start : part.end].view(part.rows, part.width).add_(values, alpha=weight)

    def of_rows(self, rows: Tensor, plan: Plan, draw: Draw) -> Tensor:
        if len(plan.layout) > 1 or plan.layout[0].rows > 1:
            return super().of_rows(rows, plan, draw)
        norm = self._norm(rows)
        random = Bits15(draw.key("qsgd"), rows.device).draw(plan.numel).repeat(len(rows))
        codes = quantize(rows, norm, self.levels, random)
        return dequantize(codes, norm, self.levels, self._shrink(plan), rows.dtype)

    def _norm(self, block: Tensor) -> Tensor:
        """One float32 norm a block; one beyond its range is its largest number."""
        norm = torch.linalg.vector_norm(block, 2 if self.norm == "l2" else math.inf, dim=1)
        return _values.rounded(norm, torch.float32).clamp(max=torch.finfo(torch.float32).max)

    def _shrink(self, plan: Plan) -> float:
        return 1 / (1 + self._omega(plan.layout[0].width)) if self.scaled else 1.0

    # ------------------------------------------------------------------------------------------ theory

    def _omega(self, block: int) -> float:
        s, root = self.levels, math.sqrt(block)
        if self.norm == "l2":
            return min(block / s**2, root / s)
        return min(block / (4 * s**2), (1 + root) / (2 * s))

    def omega(self, plan: Plan) -> float | None:
        return None if self.scaled else self._omega(plan.layout[0].width)

    def alpha(self, plan: Plan) -> float | None:
        omega = self._omega(plan.layout[0].width)
        if self.scaled:
            return 1 / (1 + omega)
        return 1 - omega if omega < 1 else None

    def match(self, alpha: float, numel: int) -> dict[str, object]:
        if alpha >= 1:
            raise ValueError("match: compressors/qsgd rounds; its contraction factor is below 1")
        for levels in range(1, MOST_LEVELS + 1):
            found = Qsgd(levels, self.norm, max(2, numel), True)
            reached = 1 / (1 + found._omega(numel))
            if reached >= alpha:
                arguments: dict[str, object] = {
                    "type": "qsgd",
                    "levels": levels,
                    "norm": self.norm,
                    "block": found.block,
                }
                return {"type": "lazy", "inner": arguments, "p": alpha / reached}
        raise ValueError(
            f"match: compressors/qsgd reaches a contraction factor of {reached:.4g} on {numel} entries, not {alpha}"
        )


def quantize(block: Tensor, norm: Tensor, levels: int, random: Tensor) -> Tensor:
    """Codes 0 .. 2s (uint8) of rows: s + (v s/N rounded at random), which has the moments of sign(v) · xi.

    Args:
        block: v, (rows, width).
        norm: N, (rows,) float32.
        random: as many whole numbers uniform in 0 .. 32767.
    """
    steps = norm.to(block.dtype)
    tiny = torch.finfo(block.dtype).tiny * levels
    inverse = torch.where(steps > tiny, levels / steps, 0).unsqueeze(1)
    chance = random.view_as(block).to(block.dtype).add_(0.5).mul_(1 / (1 << 15)).add_(levels)
    chance.addcmul_(block, inverse)
    return chance.clamp_(0, 2 * levels).to(torch.uint8)  # towards zero, hence down


def dequantize(codes: Tensor, norm: Tensor, levels: int, shrink: float, dtype: torch.dtype) -> Tensor:
    """(code - s) · N/s · shrink, as sender and receivers compute it."""
    step = norm.to(dtype).mul_(shrink / levels).unsqueeze(1)
    return codes.to(dtype).sub_(levels).mul_(step)
