"""Coupled runs on data sets that differ in one example: what each run sees of a batch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from raycipe.framework.contracts import Batch


def seen_by_runs(
    tables: Mapping[str, Tensor], strangers: Mapping[str, Tensor], replaced: Tensor, ids: Tensor, per_seed: int
) -> Batch:
    """The examples `ids` (seeds, batch) as each run sees them, (runs, batch, ...).

    A seed has `per_seed` runs: the first on the data as they are, twin k with the example `replaced` (seeds, twins)
    exchanged for a stranger. `tables` are (seeds, examples, ...), `strangers` (seeds, twins, ...).
    """
    rows = torch.arange(len(ids)).unsqueeze(1)
    hit = ids.unsqueeze(1) == replaced.unsqueeze(2)  # (seeds, twins, batch)
    batch: Batch = {}
    for name, table in tables.items():
        seen = table[rows, ids].unsqueeze(1).expand(-1, per_seed, *([-1] * (table.dim() - 1)))
        if name != "id" and bool(hit.any()):
            seen = seen.clone()
            seed, twin, place = hit.nonzero(as_tuple=True)
            seen[seed, twin + 1, place] = strangers[name][seed, twin]
        batch[name] = seen.flatten(0, 1)
    return batch
