"""Shared by the causal data: arrays with roles to splits and facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raycipe.components.data._splits import regression_facts
from raycipe.framework.contracts import TensorSplit

Array = np.ndarray
WHOLE = ("treatment", "instrument", "groups")  # whole numbers where they are 0 and 1, or labels


def split_of(arrays: Mapping[str, Array]) -> TensorSplit:
    """`x`, `y` and the roles as tensors: y (n, 1); treatments of whole numbers as int64, the rest float32."""
    return TensorSplit({name: _tensor(name, np.asarray(values)) for name, values in arrays.items()})


def _tensor(name: str, values: Array) -> Tensor:
    if name in WHOLE and (values.dtype.kind in "iub" or np.array_equal(values, np.round(values))):
        return torch.from_numpy(values.astype(np.int64))
    found = torch.from_numpy(values.astype(np.float64)).float()
    return found.unsqueeze(1) if name == "y" else found


def causal_facts(
    features: int,
    names: list[str] | None = None,
    knows_truth: bool = False,
    effects: Mapping[str, float] = {},
) -> dict[str, Any]:
    facts = {**regression_facts([features], 1), "knows_truth": knows_truth, **effects}
    return {**facts, "feature_names": names} if names else facts
