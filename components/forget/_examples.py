"""Shared by the requests: the training examples that lie in memory."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from raycipe.framework.contracts import Split, TensorSplit
from raycipe.framework.errors import RunError, counted

FORGET = "editor.forget"


def column(split: Split, name: str) -> Tensor:
    """One tensor of a split: first dimension examples. Raises RunError where examples can't be told by it."""
    if isinstance(split, TensorSplit) and name in split.tensors:
        return split.tensors[name]
    if not isinstance(split, TensorSplit):
        hint = "name the examples by their ids: {type: indices, ids: [...]}"
        raise RunError("data", "the examples do not lie in memory, so they can't be looked through", hint, FORGET)
    known = ", ".join(sorted(split.tensors))
    raise RunError("data", f"the examples have no `{name}`", f"they have: {known}", FORGET)


def labels(split: Split) -> Tensor:
    """The classes (n,) int64. Raises RunError where examples have none."""
    y = column(split, "y")
    if y.dtype != torch.int64 or y.dim() != 1:
        hint = "take {type: random}, {type: indices} or {type: query}"
        raise RunError("data", "the examples have no classes", hint, FORGET)
    return y


def chosen(splits: Mapping[str, Split], ids: Tensor, what: str) -> Tensor:
    """`ids` if they are some, but not all, of the training examples. Raises RunError otherwise."""
    there = len(splits["train"])
    if len(ids) == 0:
        raise RunError("data", f"no training example is {what}", where=FORGET)
    if len(ids) == there:
        message = f"all {counted(there, 'training example')} are {what}: nothing would be left"
        raise RunError("data", message, where=FORGET)
    return ids
