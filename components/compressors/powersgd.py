"""Low-rank factors of every weight matrix."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from raycipe.components.compressors import _values
from raycipe.framework.arguments import Count, Range
from raycipe.framework.contracts import Compressor, Draw, Plan, State
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator


class Part(NamedTuple):
    """Entries from `start` on: a matrix of rows × columns of which `rank` factors are sent, or (rank 0) as they are."""

    start: int
    rows: int
    columns: int
    rank: int

    @property
    def numel(self) -> int:
        return self.rows * self.columns


@register
class Powersgd(Compressor):
    """PowerSGD: sends two thin factors of every weight matrix, from one step of power iteration.

    For a parameter seen as a matrix V (first dimension × the rest): P = orth(V Q), Q = V' P, C(V) = P Q'. The next step
    starts from this Q. 32 r (rows + columns) bits a matrix. Vectors and small matrices are sent as they are. It can be
    summed on the way, in two passes: the mean of V_m Q is orthonormalized to P on every worker, then the mean of
    Q_m = V_m' P gives P (mean Q_m)', and each worker keeps V_m - P Q_m' by its own factor. There is no closed form for
    the contraction factor of one step.

    Args:
        rank: r, columns of the factors; more is closer and longer
        warm_start: start from the last step's Q; otherwise from new random numbers each time
        min_numel: matrices with fewer entries are sent as they are
        seed: of the first Q

    Reference:
        T. Vogels, S. P. Karimireddy, M. Jaggi, PowerSGD: Practical Low-Rank Gradient Compression, NeurIPS 2019.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: ef_sgd, lr: 0.1, compressor: {type: powersgd, rank: 4}}
    """

    reducible = True
    passes = 2

    def __init__(
        self,
        rank: Annotated[int, Range(ge=1, le=10**4)] = 4,
        warm_start: bool = True,
        min_numel: Count = 4096,
        seed: Annotated[int, Range(ge=0, le=2**32 - 1)] = 0,
    ) -> None:
        self.rank, self.warm_start, self.min_numel, self.seed = rank, warm_start, min_numel, seed

    def plan(self, numel: int, shapes: Sequence[Sequence[int]] = ()) -> Plan:
        parts, start = [], 0
        for shape in shapes or [(numel,)]:
            parts.append(self._part(start, tuple(shape)))
            start += parts[-1].numel
        size = sum(part.rank * (part.rows + part.columns) or part.numel for part in parts)
        return Plan(numel, tuple(map(tuple, shapes)), 4 * size, tuple(parts))

    def _part(self, start: int, shape: tuple[int, ...]) -> Part:
        size = math.prod(shape)
        rows, columns = (shape[0], size // shape[0]) if len(shape) > 1 and size else (1, size)
        if size < self.min_numel or min(rows, columns) <= 1:
            return Part(start, rows, columns, 0)
        if self.rank >= min(rows, columns):
            warnings.warn(
                f"powersgd sends a {rows} x {columns} matrix whole: rank {self.rank} has no gain", stacklevel=3
            )
            return Part(start, rows, columns, 0)
        return Part(start, rows, columns, self.rank)

    # ------------------------------------------------------------------------------------------ one worker's payload

    def encode_(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, body: Tensor) -> None:
        sent: list[Tensor] = []
        for part in plan.layout:
            block = _block(tensor, part)
            if part.rank:
                left = orthonormal(block @ self._start(part, draw, state, tensor)).float()
                right = (block.T @ left.to(block.dtype)).float()
                block.sub_(left.to(block.dtype) @ right.to(block.dtype).T)
                self._keep(part, state, right.to(block.dtype))
                sent += [left, right]
            else:
                values = _values.rounded(block, torch.float32, copy=True)
                block.sub_(values)
                sent.append(values)
        body.copy_(_values.as_bytes(torch.cat([values.reshape(-1) for values in sent])))

    def decode_(self, body: Tensor, plan: Plan, out: Tensor, weight: float = 1.0) -> None:
        values = _values.from_bytes(body, torch.float32).to(out.dtype)
        at = 0
        for part in plan.layout:
            block = _block(out, part)
            if part.rank:
                middle, end = at + part.rows * part.rank, at + (part.rows + part.columns) * part.rank
                left, right = values[at:middle].view(part.rows, -1), values[middle:end].view(part.columns, -1)
                block.add_(left @ right.T, alpha=weight)
            else:
                end = at + part.numel
                block.add_(values[at:end].view_as(block), alpha=weight)
            at = end

    def _start(self, part: Part, draw: Draw, state: State, like: Tensor) -> Tensor:
        """Q before the step, (columns, rank): equal on all workers at the first one."""
        name = f"right{part.start}"
        if name not in state or not self.warm_start:
            step = 0 if self.warm_start else draw.step
            generator = torch_generator(self.seed, "powersgd", step, part.start)
            right = torch.randn(part.columns, part.rank, generator=generator)
            state[name] = right.to(like)
        return state[name]

    def _keep(self, part: Part, state: State, right: Tensor) -> None:
        state[f"right{part.start}"] = right

    # ------------------------------------------------------------------------------------------ sums

    def summand(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, part: int) -> Tensor:
        """Pass 0: every V Q, and what is sent as it is; pass 1: every V' P."""
        pieces = []
        for piece in plan.layout:
            block = _block(tensor, piece)
            if piece.rank:
                factor = self._start(piece, draw, state, tensor) if part == 0 else state[f"left{piece.start}"]
                pieces.append((block @ factor if part == 0 else block.T @ factor).view(-1))
            elif part == 0:
                pieces.append(block.reshape(-1).clone())
        return torch.cat(pieces) if pieces else tensor.new_empty(0)

    def absorb_(
        self, mean: Tensor, tensor: Tensor, plan: Plan, draw: Draw, state: State, out: Tensor, part: int
    ) -> None:
        at = 0
        for piece in plan.layout:
            block, total = _block(tensor, piece), _block(out, piece)
            if piece.rank and part == 0:
                end = at + piece.rows * piece.rank
                state[f"left{piece.start}"] = orthonormal(mean[at:end].view(piece.rows, piece.rank))
            elif piece.rank:
                end = at + piece.columns * piece.rank
                left, right = state.pop(f"left{piece.start}"), mean[at:end].view(piece.columns, piece.rank)
                own = block.T @ left
                block.sub_(left @ own.T)
                total.add_(left @ right.T)
                self._keep(piece, state, right.clone())
            elif part == 0:
                end = at + piece.numel
                total.add_(mean[at:end].view_as(total))
                block.zero_()
            else:
                end = at
            at = end

    def alpha(self, plan: Plan) -> float | None:
        return None if any(part.rank for part in plan.layout) else 1.0


def orthonormal(matrix: Tensor) -> Tensor:
    """Orthonormal columns with the span of the matrix's (any further ones where that is smaller)."""
    basis: Tensor = torch.linalg.qr(matrix).Q
    return basis


def _block(flat: Tensor, part: Part) -> Tensor:
    return flat[part.start : part.start + part.numel].view(part.rows, part.columns)
