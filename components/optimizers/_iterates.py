"""Which iterate is evaluated and exported: the last one, or the mean of all or of the second half."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

Average = Literal["none", "uniform", "suffix0.5"]


class Iterates:
    """A running mean of tensors; `suffix0.5` begins after half of `total` updates."""

    def __init__(self, kind: Average) -> None:
        self.kind, self.count = kind, 0
        self.total: int | None = None
        self.means: list[Tensor] = []

    @property
    def is_ready(self) -> bool:
        """Whether there is a mean to look at."""
        return self.count > 0

    def update(self, number: int, values: Sequence[Tensor]) -> None:
        """Take in iterate `number` (1, 2, ...)."""
        if self.kind == "none" or (self.kind == "suffix0.5" and number <= self._length() // 2):
            return
        if not self.means:
            wide = [torch.float64 if value.dtype == torch.float64 else torch.float32 for value in values]
            self.means = [torch.zeros_like(value, dtype=dtype) for value, dtype in zip(values, wide, strict=True)]
        self.count += 1
        for mean, value in zip(self.means, values, strict=True):
            mean += (value.detach().to(mean.dtype) - mean) / self.count

    def _length(self) -> int:
        if self.total is None:
            raise RuntimeError("average: suffix0.5 needs the run's length: call prepare(run) first")
        return self.total

    def state(self) -> dict[str, Any]:
        return {"count": self.count, "means": self.means}

    def load(self, state: dict[str, Any]) -> None:
        self.count = state["count"]
        self.means = [mean.clone() for mean in state["means"]]
