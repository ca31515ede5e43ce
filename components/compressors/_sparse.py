"""What compressors share that keep some entries of a tensor unchanged and leave out the others."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from torch import Tensor

from raycipe.components.compressors import _values
from raycipe.framework.contracts import Compressor, Draw, Plan, State


class Kept(NamedTuple):
    """The positions that are kept, and what tells a receiver of them."""

    positions: Tensor  # int64, flat
    place: Tensor  # uint8


class Sparse(Compressor):
    """Keeps `rows(plan)` groups of entries; their values follow the codes of their places, group by group."""

    value_dtype: str = "bf16"

    @abstractmethod
    def groups(self, plan: Plan) -> list[tuple[int, int]]:
        """(rows, entries kept in each row) for each group of rows of equal length."""

    @abstractmethod
    def place_bytes(self, plan: Plan) -> int:
        """Bytes that tell which entries are kept."""

    @abstractmethod
    def choose(self, tensor: Tensor, plan: Plan, draw: Draw, place: Tensor) -> Tensor:
        """The positions (int64) kept of `tensor`, group by group and row by row; written into `place` (uint8)."""

    @abstractmethod
    def positions(self, place: Tensor, plan: Plan) -> Tensor:
        """The positions that `choose` gave."""

    def factors(self, plan: Plan, like: Tensor) -> Tensor | float:
        """What kept values are multiplied by."""
        return 1.0

    def kept(self, plan: Plan) -> int:
        return sum(rows * columns for rows, columns in self.groups(plan))

    def value_bytes(self, plan: Plan) -> int:
        return sum(_values.coded_bytes(rows, columns, self.value_dtype) for rows, columns in self.groups(plan))

    def encode_(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, body: Tensor) -> None:
        size = self.place_bytes(plan)
        positions = self.choose(tensor, plan, draw, body[:size])
        values = tensor[positions]
        sent = values * self.factors(plan, values)
        at, done = size, 0
        for rows, columns in self.groups(plan):
            end, stop = at + _values.coded_bytes(rows, columns, self.value_dtype), done + rows * columns
            read = _values.encode(sent[done:stop].view(rows, columns), self.value_dtype, body[at:end])
            values[done:stop] -= read.view(-1)
            at, done = end, stop
        tensor[positions] = values

    def decode_(self, body: Tensor, plan: Plan, out: Tensor, weight: float = 1.0) -> None:
        size = self.place_bytes(plan)
        positions = self.positions(body[:size], plan)
        at, done = size, 0
        for rows, columns in self.groups(plan):
            end = at + _values.coded_bytes(rows, columns, self.value_dtype)
            values = _values.decode(body[at:end], rows, columns, self.value_dtype, out.dtype).view(-1)
            out.index_add_(0, positions[done : done + rows * columns], values, alpha=weight)
            at, done = end, done + rows * columns
