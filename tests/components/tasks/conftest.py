"""Minimax tasks with data of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from raycipe.framework.contracts import Batch, Saddle, SaddleTask, TensorSplit
from raycipe.framework.registry import make
from raycipe.framework.training.players import FlatPlayers


@dataclass
class Game:
    """A task, its module at a random point, all of its training examples, and f as a function of flat players."""

    task: SaddleTask
    saddle: Saddle
    batch: Batch
    flat: FlatPlayers

    def mean_at(self, w: Tensor, v: Tensor) -> Tensor:
        return self.flat.value(w, v, self.batch).mean()


@pytest.fixture
def game() -> Callable[..., Game]:
    """`game("dro", {"rho": 0.5})`: 40 examples of 6 features, two classes (or measured targets)."""

    def build(
        name: str, arguments: Mapping[str, Any], width: int = 6, targets: str = "class", outputs: int = 1
    ) -> Game:
        generator = torch.Generator().manual_seed(3)
        x = torch.randn(40, width, generator=generator)
        y: Tensor = (torch.arange(40) % 3 == 0).long()
        if targets == "number":
            y = x.sum(1, keepdim=True) / 3 + torch.randn(40, 1, generator=generator) / 3
        elif targets == "noise":
            y = torch.randn(40, width, generator=generator)
        facts = {"num_classes": 2, "num_features": width, "num_outputs": outputs}
        task = make(f"tasks/{name}", facts=facts, **arguments)
        splits = {"train": TensorSplit({"x": x, "y": y})}
        task.check(facts, splits)
        torch.manual_seed(4)
        model = "models/point" if targets == "noise" else "models/linear"
        saddle = task.trained(make(model, facts=facts), splits)
        flat = FlatPlayers(task, saddle)
        w, v = flat.read()
        flat.write(*task.project(saddle, w, v + 0.05 * torch.rand(len(v), generator=generator)))
        return Game(task, saddle, {"x": x, "y": y, "id": torch.arange(40)}, flat)

    return build
