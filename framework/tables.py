"""Splits as the tables that estimators take: X, y, and the roles that the data has."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from raycipe.framework.errors import RunError
from raycipe.framework.splits import Split

ROLES = ("treatment", "instrument", "weights", "groups", "truth")
BATCH = 8192
Table = dict[str, np.ndarray]


def table(split: Split) -> Table:
    """`X` (n, d) float64, the features of an example in one row; `y` (n,) or (n, targets); the roles (n, ...)."""
    from raycipe.framework.training.feed import in_order

    parts: dict[str, list[torch.Tensor]] = {}
    for batch in in_order(split, BATCH, torch.device("cpu")):
        for name, values in batch.items():
            if name in ("x", "y", *ROLES):
                parts.setdefault(name, []).append(values)
    whole = {name: torch.cat(pieces).numpy() for name, pieces in parts.items()}
    x = whole.pop("x")
    return {"X": x.reshape(len(x), -1).astype(np.float64), **whole}


def tables(splits: Mapping[str, Split]) -> dict[str, Table]:
    """Raises RunError for a split without examples."""
    for name, split in splits.items():
        if len(split) == 0:
            raise RunError("data", f"the `{name}` split is empty", "check the data's arguments", "data")
    return {name: table(split) for name, split in splits.items()}


def roles_of(table: Table) -> Table:
    """The roles beside X and y."""
    return {name: values for name, values in table.items() if name in ROLES}


def rows_of(table: Table, rows: np.ndarray) -> Table:
    return {name: values[rows] for name, values in table.items()}
