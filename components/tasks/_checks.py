"""Shared by the tasks: what a split must look like, told with split, example and value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from raycipe.framework.contracts import Split, TensorSplit
from raycipe.framework.errors import RunError


def tensors(
    splits: Mapping[str, Split], needed: tuple[str, ...] = ("x", "y")
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Name and tensors of each split that lies in memory (others are checked where their batches are made)."""
    for name, split in splits.items():
        if isinstance(split, TensorSplit):
            missing = [key for key in needed if key not in split.tensors]
            if missing:
                raise RunError("data", f"{name}: the examples have no `{missing[0]}`", where="data")
            yield name, split.tensors


def require_finite(split: str, key: str, values: Tensor) -> None:
    """Raise RunError naming the first example of `values` (floating point) that holds NaN or infinity."""
    if not values.is_floating_point() or bool(torch.isfinite(values.sum())):  # one cheap pass in the usual case
        return
    bad = ~torch.isfinite(values.flatten(1) if values.dim() > 1 else values.unsqueeze(1))
    if bool(bad.any()):
        example = int(bad.any(dim=1).nonzero()[0])
        value = values[example].flatten()[int(bad[example].nonzero()[0])].item()
        raise RunError(
            "data", f"{split}: example {example}: {key} holds {value}, which is not a finite number", where="data"
        )


def require_dtype(split: str, key: str, values: Tensor, dtypes: tuple[torch.dtype, ...], hint: str) -> None:
    if values.dtype not in dtypes:
        wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        found = str(values.dtype).removeprefix("torch.")
        raise RunError("data", f"{split}: {key} must be {wanted}, not {found}", hint, where="data")


def require_range(split: str, key: str, values: Tensor, count: int, hint: str, ignore: int | None = None) -> None:
    """Raise RunError naming the first example of `values` (integers) outside 0 .. count - 1 (and not `ignore`)."""
    bad = (values < 0) | (values >= count)
    if ignore is not None:
        bad &= values != ignore
    if bool(bad.any()):
        where = bad.nonzero()[0].tolist()
        value = values[tuple(where)].item()
        message = f"{split}: example {where[0]} has {key} {value}, outside 0 .. {count - 1}"
        raise RunError("data", message, hint, where="data")


def fits(outputs: Any, shape: tuple[int, ...]) -> bool:
    """Whether a model's outputs are floating point of this shape."""
    return isinstance(outputs, Tensor) and outputs.is_floating_point() and tuple(outputs.shape) == shape
