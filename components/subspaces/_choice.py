"""Shared by the selectors: from a score for each parameter to the indices that are chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from raycipe.framework.errors import RunError

Layout = Sequence[tuple[str, torch.Size]]
Granularity = Literal["element", "unit", "tensor"]
SUBSPACE = "editor.subspace"


class Blocks(NamedTuple):
    """What is chosen together: `of` (p,) numbers each parameter's block, `layer` (blocks,) each block's layer."""

    of: Tensor
    sizes: Tensor
    layer: Tensor

    def mean(self, values: Tensor) -> Tensor:
        """(p,) -> (blocks,)."""
        found = torch.zeros(len(self.sizes), dtype=values.dtype, device=values.device)
        return found.index_add_(0, self.of.to(values.device), values) / self.sizes.to(values)


def blocks_of(layout: Layout, granularity: Granularity) -> Blocks:
    """Elements; units: row i of a layer's weight with entry i of its bias; or whole tensors."""
    of, layer_of_block, known, start = [], [], {}, 0
    layers: dict[str, int] = {}
    for name, shape in layout:
        prefix = name.rpartition(".")[0]
        layer = layers.setdefault(prefix, len(layers))
        count = shape.numel()
        if granularity == "element":
            of.append(torch.arange(start, start + count))
            layer_of_block += [layer] * count
            start += count
            continue
        units = shape[0] if granularity == "unit" and len(shape) else 1
        key = (prefix, units) if granularity == "unit" else (name, units)
        if key not in known:
            known[key] = start
            layer_of_block += [layer] * units
            start += units
        of.append(known[key] + torch.arange(units).repeat_interleave(count // units))
    numbers = torch.cat(of)
    return Blocks(numbers, torch.bincount(numbers, minlength=start), torch.tensor(layer_of_block))


def eligible(layout: Layout, include: Sequence[str], exclude: Sequence[str]) -> Tensor:
    """(p,) which parameters may be chosen, by name. Raises RunError for a pattern that matches nothing."""
    names = [name for name, _ in layout]
    for pattern in (*include, *exclude):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise RunError("recipe", f"no parameter is named `{pattern}`", f"they are: {', '.join(names)}", SUBSPACE)
    kept = [
        any(fnmatchcase(name, pattern) for pattern in include)
        and not any(fnmatchcase(name, pattern) for pattern in exclude)
        for name in names
    ]
    return torch.cat([torch.full((shape.numel(),), keep) for keep, (_, shape) in zip(kept, layout, strict=True)])


def budget(share: float, count: int | None, there: int) -> int:
    """How many of `there` parameters may be chosen, at least one."""
    if there == 0:
        raise RunError("recipe", "no parameter may be chosen", "look at `include` and `exclude`", SUBSPACE)
    wanted = count if count is not None else max(1, math.floor(share * there + 1e-9))
    if wanted > there:
        raise RunError("recipe", f"{wanted} parameters are to be chosen, and only {there} may be", where=SUBSPACE)
    return wanted


def best(score: Tensor, blocks: Blocks, most: int) -> Tensor:
    """Whole blocks by descending score (blocks,), ties by number, as long as they fit; -inf is chosen last of all.

    Returns the parameters' indices, ascending. A block larger than what is left is passed over.
    """
    order = torch.sort(score, descending=True, stable=True).indices
    sizes = blocks.sizes[order]
    if bool((blocks.sizes == 1).all()):
        taken = order[:most]
    else:
        left, chosen = most, []
        for block, size in zip(order.tolist(), sizes.tolist(), strict=True):
            if size <= left and score[block] > -math.inf:
                chosen.append(block)
                left -= size
        if not chosen:
            message = f"no whole unit or tensor fits into {most} parameters"
            raise RunError("recipe", message, "a larger `ratio`, or granularity: element", SUBSPACE)
        taken = torch.tensor(chosen)
    mark = torch.zeros(len(blocks.sizes), dtype=torch.bool)
    mark[taken] = True
    return mark[blocks.of].nonzero().flatten()


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """`total` parted in proportion to sizes, by largest remainders; none more than its size."""
    whole = sum(sizes)
    exact = [total * size / whole for size in sizes]
    found = [math.floor(part) for part in exact]
    for place in sorted(range(len(sizes)), key=lambda i: found[i] - exact[i])[: total - sum(found)]:
        found[place] += 1
    return found
