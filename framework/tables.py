"""Splits as the tables that estimators take: X, y, and the roles that the data has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def folds_of(train: Mapping[str, np.ndarray], facts: Mapping[str, Any], folds: int, seed: int) -> list[np.ndarray]:
    """The rows of each fold: whole groups where the data has groups, else equal shares of each class or of all.

    Raises RunError (`estimator.folds`) for more folds than there are rows, groups, or examples of the rarest class.
    """
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    y, groups = train["y"], train.get("groups")
    if folds > len(y):
        raise RunError("data", f"{folds} folds of {len(y)} examples", "lower estimator.folds", "estimator.folds")
    if groups is not None:
        if folds > len(np.unique(groups)):
            message = f"{folds} folds of {len(np.unique(groups))} groups, which must not be divided"
            raise RunError("data", message, "lower estimator.folds", "estimator.folds")
        parts = GroupKFold(folds).split(y, groups=groups)
    elif "num_classes" in facts:
        rarest = int(np.unique(y, return_counts=True)[1].min())
        if folds > rarest:
            message = f"{folds} folds, and the rarest class has {rarest} training examples"
            raise RunError("data", message, "lower estimator.folds", "estimator.folds")
        parts = StratifiedKFold(folds, shuffle=True, random_state=seed).split(y, y)
    else:
        parts = KFold(folds, shuffle=True, random_state=seed).split(y)
    return [held_out for _, held_out in parts]
