"""Shared by the data components: a seeded split by rows, standardization, facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from raycipe.framework.contracts import TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.streams import numpy_generator

Rows = dict[str, np.ndarray]
ROUNDING = 64 * float(np.finfo(np.float64).eps)  # of a mean, relative; a sum over many rows is a few units off
FLOAT32_MAX = float(np.finfo(np.float32).max)


def check_shares(val: float, test: float) -> None:
    """Raise ValueError if the two shares leave nothing to train on."""
    if not (0 <= val < 1 and 0 <= test < 1 and val + test < 1):
        raise ValueError(
            f"val: val and test are shares of the examples and must leave some to train on, not {val} + {test}"
        )


def shuffled_rows(count: int, val: float, test: float, seed: int) -> Rows:
    """Row numbers per split (ascending), drawn without replacement. A share > 0 gets at least one row, 0 no split."""
    order = numpy_generator(seed, "split").permutation(count)
    num_test = max(1, round(test * count)) if test else 0
    num_val = max(1, round(val * count)) if val else 0
    if num_test + num_val >= count:
        raise RunError(
            "data",
            f"{count} examples are too few for val: {val} and test: {test}",
            "nothing would be left to train on: make the shares smaller or bring more examples",
            where="data",
        )
    rows = {"train": order[num_test + num_val :], "val": order[num_test : num_test + num_val], "test": order[:num_test]}
    return {name: np.sort(chosen) for name, chosen in rows.items() if len(chosen)}


def tensor_splits(arrays: dict[str, Tensor], rows: Rows) -> dict[str, TensorSplit]:
    """One TensorSplit per entry of `rows`, all keys indexed alike."""
    chosen = {name: torch.from_numpy(index) for name, index in rows.items()}
    return {name: TensorSplit({key: values[index] for key, values in arrays.items()}) for name, index in chosen.items()}


def standardizer(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation per column (float64); a constant column gets 1, so that it becomes 0."""
    mean, std = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    return mean, usable_spread(mean, std)


def usable_spread(mean: np.ndarray | float, std: np.ndarray | float) -> np.ndarray:
    """`std`, but 1 where it is no more than the rounding of `mean`: 0.1 in every row has a deviation of 1e-17."""
    return np.where(std > ROUNDING * np.abs(mean), std, 1.0)


def beyond_float32(values: np.ndarray) -> np.ndarray:
    """Where a value is larger than any float32 (an infinity is, a NaN is not)."""
    return np.abs(values) > FLOAT32_MAX if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)


def classification_facts(input_shape: list[int], class_names: list[str]) -> dict[str, Any]:
    return {
        "input_shape": input_shape,
        "num_features": int(np.prod(input_shape)),
        "num_outputs": len(class_names),
        "num_classes": len(class_names),
        "class_names": class_names,
    }


def regression_facts(
    input_shape: list[int], num_outputs: int, why: str = "its targets are measured numbers: use `task: regression`"
) -> dict[str, Any]:
    """`why` there are no classes, and what to do about it."""
    return {
        "input_shape": input_shape,
        "num_features": int(np.prod(input_shape)),
        "num_outputs": num_outputs,
        "missing": {"num_classes": why},
    }
