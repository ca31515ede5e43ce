"""Entries drawn at random."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from raycipe.components.compressors import _values
from raycipe.components.compressors._random import below
from raycipe.components.compressors._sparse import Sparse
from raycipe.framework.arguments import Share
from raycipe.framework.contracts import Draw, Plan, State
from raycipe.framework.registry import register

SEED_BYTES = 8
TOLERATED = 0.05  # relative difference of the share that is really kept


class Blocks(NamedTuple):
    """`whole` blocks of `size` entries and a last one of `rest`; one entry of each is kept."""

    size: int
    whole: int
    rest: int


@register
class Randk(Sparse):
    """Random-k: keeps one entry, drawn uniformly, of each block of b = round(1/ratio).

    Its places are a seed of 8 bytes, whatever their number. As it is, E|C(v) - v|² = (1 - 1/b) |v|², a contraction
    factor of 1/b. Scaled by b (a short last block by its own length) it is unbiased, with E|C(v) - v|² = (b - 1) |v|²:
    no contraction, so that error feedback would diverge. With `shared` all workers keep the same entries: these can be
    summed on the way, but nothing is averaged over workers of what is left out.

    Args:
        ratio: share of the entries kept, 1/b for a whole b; others move to the nearest (0.3 to 1/3, above 2/3 to all)
        scaled: multiply what is kept by b, which makes it unbiased; for use without error feedback
        shared: draw the same entries on all workers
        value_dtype: format of the values

    Reference:
        S. Stich, J.-B. Cordonnier, M. Jaggi, Sparsified SGD with Memory, NeurIPS 2018.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: ef_sgd, lr: 0.05, compressor: {type: randk, ratio: 0.1}}
    """

    def __init__(
        self, ratio: Share = 0.01, scaled: bool = False, shared: bool = False, value_dtype: _values.Floating = "bf16"
    ) -> None:
        self.ratio, self.scaled, self.shared = ratio, scaled, shared
        self.value_dtype: _values.Floating = value_dtype
        self.reducible = shared

    def plan(self, numel: int, shapes: Sequence[Sequence[int]] = ()) -> Plan:
        size = min(round(1 / self.ratio), numel)
        if abs(self.ratio * size - 1) > TOLERATED and size < numel:
            warnings.warn(
                f"randk keeps one of {size} entries, a share of {1 / size:.4g}, not {self.ratio}", stacklevel=2
            )
        blocks = Blocks(size, numel // size, numel % size)
        bare = Plan(numel, tuple(map(tuple, shapes)), 0, blocks)
        return Plan(numel, bare.shapes, SEED_BYTES + self.value_bytes(bare), blocks)

    def groups(self, plan: Plan) -> list[tuple[int, int]]:
        return [(1, plan.layout.whole + (plan.layout.rest > 0))]

    def place_bytes(self, plan: Plan) -> int:
        return SEED_BYTES

    def choose(self, tensor: Tensor, plan: Plan, draw: Draw, place: Tensor) -> Tensor:
        seed = draw.key("randk", self.shared)
        place.copy_(_values.as_bytes(torch.tensor([seed])))
        return self._drawn(seed, plan, tensor.device)

    def positions(self, place: Tensor, plan: Plan) -> Tensor:
        return self._drawn(int(_values.from_bytes(place, torch.int64)), plan, place.device)

    def _drawn(self, seed: int, plan: Plan, device: torch.device) -> Tensor:
        """One position of each block; for whole blocks first, so that these do not depend on the rest."""
        size, count, rest = plan.layout
        places = below(seed, size, count + (rest > 0), device)
        if rest:
            places[-1] = below(seed ^ 1, rest, 1, device)[0]
        return places + torch.arange(len(places), device=device) * size

    def of_rows(self, rows: Tensor, plan: Plan, draw: Draw) -> Tensor:
        positions = self._drawn(draw.key("randk", self.shared), plan, rows.device)
        kept = rows[:, positions]
        out = torch.zeros_like(rows)
        sent = _values.rounded(kept * self.factors(plan, kept), _values.FLOATS[self.value_dtype])
        out[:, positions] = sent.to(rows.dtype)
        return out

    # ------------------------------------------------------------------------------------------ scaled

    def factors(self, plan: Plan, like: Tensor) -> Tensor | float:
        if not self.scaled:
            return 1.0
        size, count, rest = plan.layout
        factors = torch.full((count + (rest > 0),), float(size), dtype=like.dtype, device=like.device)
        if rest:
            factors[-1] = rest
        return factors

    # ------------------------------------------------------------------------------------------ theory

    def alpha(self, plan: Plan) -> float | None:
        size = plan.layout.size
        if self.scaled:
            return 2.0 - size if size < 2 else None
        return 1.0 / size

    def omega(self, plan: Plan) -> float | None:
        return plan.layout.size - 1.0 if self.scaled else None

    def match(self, alpha: float, numel: int) -> dict[str, object]:
        size = int(1 / alpha + 1e-9)
        found: dict[str, object] = {"type": "randk", "ratio": 1 / size, "shared": self.shared}
        found["value_dtype"] = self.value_dtype
        share = alpha * size
        return found if share > 1 - 1e-9 else {"type": "lazy", "inner": found, "p": share}

    # ------------------------------------------------------------------------------------------ sums

    def summand(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, part: int) -> Tensor:
        positions = self._drawn(draw.key("randk", True), plan, tensor.device)
        values = tensor[positions]
        coded = _values.rounded(values * self.factors(plan, values), _values.FLOATS[self.value_dtype])
        tensor[positions] = values - coded.to(tensor.dtype)
        return coded if coded.element_size() < 4 else coded.to(tensor.dtype)

    def absorb_(
        self, mean: Tensor, tensor: Tensor, plan: Plan, draw: Draw, state: State, out: Tensor, part: int
    ) -> None:
        out.index_add_(0, self._drawn(draw.key("randk", True), plan, out.device), mean.to(out.dtype))
