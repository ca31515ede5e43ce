"""Minimax problems on one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from raycipe.framework.conformance.players import OneBatch, stand_in
from raycipe.framework.contracts import TensorSplit
from raycipe.framework.registry import make


@pytest.fixture
def problem() -> Callable[..., OneBatch]:
    """`problem("bilinear", {"mu_w": 1.0}, dim=20)`: w and v start at random, ten examples of the players' noise."""

    def build(name: str, arguments: Mapping[str, Any], dim: int = 3, noise: float = 1.0) -> OneBatch:
        generator = torch.Generator().manual_seed(7)
        x, y = (noise * torch.randn(10, dim, generator=generator) for _ in range(2))
        splits = {"train": TensorSplit({"x": x, "y": y})}
        task = make(f"tasks/{name}", **arguments)
        torch.manual_seed(8)
        saddle = task.trained(make("models/point", dim=dim), splits)
        optimizer = make("optimizers/sgda", params=saddle.groups())
        found = stand_in(task, saddle, optimizer, {"x": x, "y": y, "id": torch.arange(10)}, splits)
        assert found is not None
        found.session.again(found.session.current)  # as the loop does before a step
        return found

    return build
