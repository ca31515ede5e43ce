"""The largest entries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from raycipe.components.compressors import _elias_fano, _values
from raycipe.components.compressors._bits import pack, packed_bytes, unpack
from raycipe.components.compressors._select import largest
from raycipe.components.compressors._sparse import Sparse
from raycipe.framework.arguments import Count, Range, Share
from raycipe.framework.contracts import Draw, Plan
from raycipe.framework.registry import register

MAX_NUMEL = 2**31 - 1  # positions of 32 bits


class Unit(NamedTuple):
    """`rows` rows of `length` entries from `start` on, of each of which `k` are kept."""

    start: int
    rows: int
    length: int
    k: int

    @property
    def index_bits(self) -> int:
        return max(1, (self.length - 1).bit_length())


@register
class Topk(Sparse):
    """Top-k: keeps the k largest magnitudes of each chunk, C(v)_i = v_i if |v_i| is among them, else 0.

    Of two equal ones the first is kept. Of a unit of d entries k = max(1, round(ratio · d)) stay, always exactly so
    many, so that sizes are fixed; a short last chunk goes by its own length. The contraction factor is k/d in the
    worst case, all entries equal, and far larger on gradients, where few entries carry most of the norm. One entry
    takes value bits + index bits: 16 + 12 by default, 1/114 of 32 bits an entry at a ratio of 0.01.

    Args:
        ratio: share of the entries kept
        k: number of entries kept of each unit, instead of a share (a shorter unit keeps at most all it has)
        scope: what a unit is: a chunk of the fragment, a parameter, or the whole fragment. Over a whole fragment large
            layers may starve small ones, and indices are longer
        chunk: entries of a chunk
        value_dtype: format of the values; int8, int4 and int2 share one scale a unit
        index_coding: how places are written: packed in log2(unit) bits, elias_fano in about log2(d/k) + 2, or int32
        method: how the largest are found; the answer is the same. auto samples long units first

    Reference:
        S. Stich, J.-B. Cordonnier, M. Jaggi, Sparsified SGD with Memory, NeurIPS 2018.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: ef_sgd, lr: 0.1, momentum: 0.9, compressor: {type: topk, ratio: 0.05}}
    """

    at_most_one = (("ratio", "k"),)

    def __init__(
        self,
        ratio: Share = 0.01,
        k: Count | None = None,
        scope: Literal["chunk", "tensor", "global"] = "chunk",
        chunk: Annotated[int, Range(ge=2, le=2**20)] = 4096,
        value_dtype: _values.Values = "bf16",
        index_coding: Literal["packed", "elias_fano", "int32"] = "packed",
        method: Literal["auto", "sort", "threshold"] = "auto",
    ) -> None:
        self.ratio, self.k, self.scope, self.chunk = ratio, k, scope, chunk
        self.value_dtype: _values.Values = value_dtype
        self.index_coding, self.method = index_coding, method

    # ------------------------------------------------------------------------------------------ sizes

    def plan(self, numel: int, shapes: Sequence[Sequence[int]] = ()) -> Plan:
        if numel > MAX_NUMEL:
            raise ValueError(f"scope: a fragment may have at most {MAX_NUMEL:,} entries, not {numel:,}")
        units = tuple(self._units(numel, shapes))
        bare = Plan(numel, tuple(map(tuple, shapes)), 0, units)
        return Plan(numel, bare.shapes, self.place_bytes(bare) + self.value_bytes(bare), units)

    def _units(self, numel: int, shapes: Sequence[Sequence[int]]) -> list[Unit]:
        """The fragment's units, those of equal length together."""
        if self.k is not None and self.k > (min(numel, self.chunk) if self.scope == "chunk" else numel):
            raise ValueError(f"k: can't keep {self.k} entries of {min(numel, self.chunk)}")
        if self.scope == "tensor" and shapes:
            sizes = [math.prod(shape) for shape in shapes]
        elif self.scope == "chunk":
            sizes = [self.chunk] * (numel // self.chunk) + ([numel % self.chunk] if numel % self.chunk else [])
        else:
            sizes = [numel]
        found, start = [], 0
        for length, group in itertools.groupby(size for size in sizes if size):
            count = len(list(group))
            found.append(Unit(start, count, length, self._kept_of(length)))
            start += count * length
        return found

    def _kept_of(self, length: int) -> int:
        return max(1, round(self.ratio * length)) if self.k is None else min(self.k, length)

    def groups(self, plan: Plan) -> list[tuple[int, int]]:
        return [(unit.rows, unit.k) for unit in plan.layout]

    def place_bytes(self, plan: Plan) -> int:
        if self.index_coding == "elias_fano":
            return _elias_fano.coded_bytes(plan.numel, self.kept(plan))
        if self.index_coding == "int32":
            return 4 * self.kept(plan)
        return sum(packed_bytes(unit.rows * unit.k, unit.index_bits) for unit in plan.layout)

    # ------------------------------------------------------------------------------------------ places

    def choose(self, tensor: Tensor, plan: Plan, draw: Draw, place: Tensor) -> Tensor:
        parts = []
        for unit in plan.layout:
            block = tensor[unit.start : unit.start + unit.rows * unit.length].view(unit.rows, unit.length)
            parts.append(largest(block, unit.k, self.method) + unit.start)
        positions = torch.cat(parts)
        self._write(positions, plan, place)
        return positions

    def _write(self, positions: Tensor, plan: Plan, place: Tensor) -> None:
        if self.index_coding == "elias_fano":
            _elias_fano.encode(positions, plan.numel, place)
        elif self.index_coding == "int32":
            place.copy_(_values.as_bytes(positions.to(torch.int32)))
        else:
            at = done = 0
            for unit in plan.layout:
                part = positions[done : done + unit.rows * unit.k]
                end = at + packed_bytes(part.numel(), unit.index_bits)
                local = ((part - unit.start) % unit.length).to(torch.int32)
                pack(local, unit.index_bits, place[at:end])
                at, done = end, done + part.numel()

    def positions(self, place: Tensor, plan: Plan) -> Tensor:
        if self.index_coding == "elias_fano":
            return _elias_fano.decode(place, plan.numel, self.kept(plan))
        if self.index_coding == "int32":
            return _values.from_bytes(place, torch.int32).long()
        at, parts = 0, []
        for unit in plan.layout:
            count = unit.rows * unit.k
            end = at + packed_bytes(count, unit.index_bits)
            local = unpack(place[at:end], count, unit.index_bits, torch.int32).view(unit.rows, unit.k)
            first = torch.arange(unit.rows, device=place.device).unsqueeze(1) * unit.length + unit.start
            parts.append((local + first).view(-1))
            at = end
        return torch.cat(parts)

    def of_rows(self, rows: Tensor, plan: Plan, draw: Draw) -> Tensor:
        if self.value_dtype in _values.WHOLE_BITS or len(plan.layout) > 1 or plan.layout[0].rows > 1:
            return super().of_rows(rows, plan, draw)
        positions = largest(rows, plan.layout[0].k, self.method)
        out = torch.zeros_like(rows)
        sent = _values.rounded(rows.reshape(-1)[positions], _values.FLOATS[self.value_dtype])
        out.view(-1)[positions] = sent.to(rows.dtype)
        return out

    # ------------------------------------------------------------------------------------------ theory

    def alpha(self, plan: Plan) -> float | None:
        if self.value_dtype in _values.WHOLE_BITS:
            return None
        return min(unit.k / unit.length for unit in plan.layout)

    def match(self, alpha: float, numel: int) -> dict[str, object]:
        if self.value_dtype in _values.WHOLE_BITS:
            return super().match(alpha, numel)
        arguments = {"value_dtype": self.value_dtype, "index_coding": self.index_coding, "method": self.method}
        return {"type": "topk", "ratio": alpha, "scope": "global", **arguments}
