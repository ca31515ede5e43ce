"""The k largest magnitudes of each row, exactly k, ties by the lower index.

`threshold` finds a bound from an eighth of each row that a little more than k entries pass, and looks for the k largest
among these survivors alone: on a CPU that is one pass over memory. Rows whose bound let too few or far too many pass
are done by `sort`, which looks at all entries. Both give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Method = Literal["auto", "sort", "threshold"]
TILE = 1 << 19  # entries worked on at a time, so that what is in between stays in the cache
STRIDE = 8  # of the sample
MIN_LENGTH = 512  # of a row for which sampling pays
MIN_NUMEL = 1 << 17  # of all rows together; below, calls cost more than entries
SAMPLE = 100_000  # entries of a long row's sample
FAR_TOO_MANY = 8  # times k


def largest(rows: Tensor, k: int, method: Method = "auto") -> Tensor:
    """Positions in `rows.view(-1)` (int64, rising) of the k largest magnitudes of each row: rows × k of them."""
    length = rows.shape[1]
    if k >= length:
        return torch.arange(rows.numel(), device=rows.device)
    pays = rows.numel() >= MIN_NUMEL and length >= MIN_LENGTH and 4 * k <= length
    sampled = method == "threshold" or (method == "auto" and pays)
    if not sampled:
        return torch.cat([part + start for start, part in _tiles(rows, lambda tile: _by_sort(tile.abs(), k))])
    if length > TILE:
        return torch.cat([_of_long_row(row, k) + i * length for i, row in enumerate(rows)])
    return torch.cat([part + start for start, part in _tiles(rows, lambda tile: _by_threshold(tile.abs(), k))])


def positions_of(flags: Tensor) -> Tensor:
    """Where a flat boolean tensor is true: int64, rising."""
    if flags.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(flags.numpy()))  # several times faster than torch's nonzero
    return flags.nonzero().view(-1)


def _tiles(rows: Tensor, work: Callable[[Tensor], Tensor]) -> list[tuple[int, Tensor]]:
    height = max(1, TILE // rows.shape[1])
    return [(i * rows.shape[1], work(rows[i : i + height])) for i in range(0, rows.shape[0], height)]


def _by_sort(sizes: Tensor, k: int) -> Tensor:
    return positions_of(_top(sizes, k).view(-1))


def _top(sizes: Tensor, k: int) -> Tensor:
    """Which k entries of each row are the largest, as booleans; the earlier one of equals."""
    kth = torch.topk(sizes, k, dim=1).values[:, -1:]
    above, equal = sizes > kth, sizes == kth
    wanted = k - above.sum(1, keepdim=True)
    if int(equal.sum()) > int(wanted.sum()):
        equal &= equal.cumsum(1) <= wanted
    return above | equal


def _by_threshold(sizes: Tensor, k: int) -> Tensor:
    height, length = sizes.shape
    survivors = positions_of((sizes >= _bound(sizes, k)).view(-1))
    row = survivors // length
    count = torch.bincount(row, minlength=height)
    bad = (count < k) | (count > FAR_TOO_MANY * k + 64)
    if bool(bad.any()):
        good = ~bad
        chosen = positions_of(bad)
        redone = _by_sort(sizes[chosen], k).view(len(chosen), k) % length + (chosen * length).unsqueeze(1)
        kept = survivors[good[row]]
        rest = _among(sizes, kept, kept // length, k) if bool(good.any()) else kept
        return torch.cat([rest, redone.view(-1)]).sort().values
    return _among(sizes, survivors, row, k)


def _bound(sizes: Tensor, k: int) -> Tensor:
    """For each row a size that a few more than k entries reach: the (k/8 + 3 deviations)-th of every eighth."""
    expected = k / STRIDE
    sample = sizes[:, ::STRIDE]
    place = min(sample.shape[1], math.ceil(expected + 3 * math.sqrt(expected) + 1))
    return torch.topk(sample.contiguous(), place, dim=1).values[:, -1:]


def _among(sizes: Tensor, survivors: Tensor, row: Tensor, k: int) -> Tensor:
    """The k largest of each row's survivors, of which rows that are left out have none."""
    used = torch.bincount(row, minlength=sizes.shape[0])
    column = torch.arange(len(survivors), device=sizes.device) - (used.cumsum(0) - used)[row]
    width = int(used.max())
    lined_up = torch.full((sizes.shape[0], width), -1.0, dtype=sizes.dtype, device=sizes.device)
    place = row * width + column
    lined_up.view(-1)[place] = sizes.view(-1)[survivors]
    return survivors[positions_of(_top(lined_up, k).view(-1)[place])]


def _of_long_row(row: Tensor, k: int) -> Tensor:
    """One row beyond a tile: the bound comes from a sample of the whole row."""
    sample = row[:: max(1, row.numel() // SAMPLE)].abs()
    expected = k * sample.numel() / row.numel()
    place = min(sample.numel(), math.ceil(1.2 * expected + 3 * math.sqrt(expected) + 1))
    bound = torch.topk(sample, place).values[-1]
    cuts = range(0, row.numel(), TILE)
    survivors = torch.cat([positions_of(row[i : i + TILE].abs() >= bound) + i for i in cuts])
    if not k <= survivors.numel() <= FAR_TOO_MANY * k + 64:
        return _by_sort(row.abs().unsqueeze(0), k)
    return survivors[_by_sort(row[survivors].abs().unsqueeze(0), k)]
