"""Shared by the minimax tasks: projections, labels of two classes, the weights of a linear model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from raycipe.components.tasks._checks import require_dtype, require_finite, tensors
from raycipe.framework.contracts import Batch, Saddle, Split, TensorSplit
from raycipe.framework.errors import RunError

Format = Literal["float64", "float32"]


def dtype_of(name: Format) -> torch.dtype:
    return torch.float64 if name == "float64" else torch.float32


def onto_ball(point: Tensor, radius: float) -> Tensor:
    """The nearest point of the Euclidean ball around 0, on the last dimension."""
    norm = torch.linalg.vector_norm(point, dim=-1, keepdim=True)
    return point * (radius / norm.clamp(min=radius))


def onto_simplex(point: Tensor) -> Tensor:
    """The nearest point with entries >= 0 that sum to 1, on the last dimension.

    q_j = max(x_j - theta, 0) with theta from the sorted entries: Duchi et al., Efficient Projections onto the l1-Ball,
    ICML 2008, figure 1.
    """
    ordered = point.sort(dim=-1, descending=True).values
    counts = torch.arange(1, point.shape[-1] + 1, dtype=point.dtype, device=point.device)
    thresholds = (ordered.cumsum(dim=-1) - 1) / counts
    last = (ordered > thresholds).sum(dim=-1, keepdim=True) - 1
    return (point - thresholds.gather(-1, last)).clamp(min=0)


def train_tensor(splits: Mapping[str, Split], key: str, hint: str) -> Tensor:
    """A tensor of the training split. Raises RunError where it does not lie in memory."""
    split = splits["train"]
    if not isinstance(split, TensorSplit):
        raise RunError("data", f"the training examples do not lie in memory, and the task needs their `{key}`", hint)
    if key not in split.tensors:
        raise RunError("data", f"train: the examples have no `{key}`", hint, where="data")
    return split.tensors[key]


def count_train(splits: Mapping[str, Split]) -> int:
    return len(splits["train"])


def is_positive(y: Tensor, positive: list[int] | None) -> Tensor:
    """Which examples belong to the positive class: label 1, or one of `positive`."""
    if positive is None:
        return y == 1
    return torch.isin(y, torch.tensor(positive, device=y.device))


def check_two_classes(
    facts: Mapping[str, Any], splits: Mapping[str, Split], positive: list[int] | None, name: str
) -> None:
    """Raise RunError unless labels are class numbers and every split in memory has both classes."""
    if positive is None and facts.get("num_classes", 2) != 2:
        message = f"{name} takes two classes, and the data have {facts['num_classes']}"
        raise RunError("data", message, "say which labels count as positive: task.positive: [1, 3]", "task.positive")
    for split, values in tensors(splits):
        require_dtype(split, "y", values["y"], (torch.int64,), f"{name} takes class numbers")
        require_finite(split, "x", values["x"])
        share = is_positive(values["y"], positive).double().mean()
        if share in (0, 1):
            one = "a positive" if share == 0 else "a negative"
            message = f"{name} needs both classes: no example of `{split}` is {one} one"
            raise RunError("data", message, "bring more examples, or see task.positive", where="data")


def check_targets_of_one(splits: Mapping[str, Split], name: str) -> None:
    """Raise RunError unless y is one finite measured number an example."""
    for split, values in tensors(splits):
        hint = f"{name} takes measured targets"
        require_dtype(split, "y", values["y"], (torch.float32, torch.float64), hint)
        if values["y"][:1].numel() != 1:
            message = f"{split}: y holds {values['y'][:1].numel()} numbers an example, {name} takes one"
            raise RunError("data", message, where="data")
        require_finite(split, "y", values["y"])
        require_finite(split, "x", values["x"])


def scores_of(outputs: Tensor) -> Tensor:
    """(batch, 1) or (batch,) -> (batch,)."""
    return outputs.reshape(outputs.shape[0])


def linear_weight(saddle: Saddle) -> Tensor | None:
    """The weight vector of a linear model with one output, or None."""
    layer = getattr(saddle.model, "layer", None)
    return layer.weight[0] if isinstance(layer, nn.Linear) and layer.out_features == 1 else None


def by_example(variable: Tensor, batch: Batch, scope: str) -> Tensor:
    """The rows of a perturbation that belong to a batch: one shared row, or each training example's own."""
    return variable if scope == "shared" else variable[batch["id"]]


def has_bias(saddle: Saddle) -> bool:
    """Whether a linear model has a bias."""
    return getattr(getattr(saddle.model, "layer", None), "bias", None) is not None
