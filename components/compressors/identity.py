"""Everything, in full or half precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from raycipe.components.compressors import _values
from raycipe.framework.contracts import Compressor, Draw, Plan, State
from raycipe.framework.registry import register

TILE = 1 << 18  # entries worked on at a time, so that what is in between stays in the cache


@register
class Identity(Compressor):
    """Sends every entry, C(v) = v, rounded to the given format; what rounding takes away stays in the error buffer.

    32 or 16 bits an entry (64 with fp64), contraction factor 1. It can be summed on the way. In 16 bits that sum rounds
    once more, outside every buffer: `collective: all_gather` avoids it.

    Args:
        dtype: format of the values; fp64 is for models in double precision

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: ef_sgd, compressor: {type: identity, dtype: bf16}}
    """

    reducible = True

    def __init__(self, dtype: Literal["fp64", "fp32", "bf16", "fp16"] = "fp32") -> None:
        self.dtype = dtype

    def plan(self, numel: int, shapes: Sequence[Sequence[int]] = ()) -> Plan:
        return Plan(numel, tuple(map(tuple, shapes)), _values.coded_bytes(1, numel, self.dtype))

    def encode_(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, body: Tensor) -> None:
        for part, place in self._tiles(tensor, body):
            part -= _values.encode(part.unsqueeze(0), self.dtype, place).squeeze(0)

    def decode_(self, body: Tensor, plan: Plan, out: Tensor, weight: float = 1.0) -> None:
        for part, place in self._tiles(out, body):
            part.add_(_values.from_bytes(place, _values.FLOATS[self.dtype]).to(out.dtype), alpha=weight)

    def _tiles(self, tensor: Tensor, body: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Entries and the bytes of their values."""
        return zip(
            torch.split(tensor, TILE), torch.split(body, TILE * _values.FLOATS[self.dtype].itemsize), strict=True
        )

    def is_exact(self, dtype: torch.dtype) -> bool:
        return _values.FLOATS[self.dtype].itemsize >= dtype.itemsize and dtype.itemsize >= 4

    def of_rows(self, rows: Tensor, plan: Plan, draw: Draw) -> Tensor:
        return _values.rounded(rows, _values.FLOATS[self.dtype], copy=True).to(rows.dtype)

    def alpha(self, plan: Plan) -> float:
        return 1.0

    def match(self, alpha: float, numel: int) -> dict[str, object]:
        found: dict[str, object] = {"type": "identity", "dtype": self.dtype}
        return found if alpha >= 1 else {"type": "lazy", "inner": found, "p": alpha}

    def summand(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, part: int) -> Tensor:
        coded = _values.rounded(tensor, _values.FLOATS[self.dtype], copy=True)
        tensor -= coded
        return coded if coded.element_size() < 4 else coded.to(tensor.dtype)

    def absorb_(
        self, mean: Tensor, tensor: Tensor, plan: Plan, draw: Draw, state: State, out: Tensor, part: int
    ) -> None:
        out += mean
