"""Some steps of an optimizer on a fixed problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn


@pytest.fixture
def after_steps() -> Callable[[Callable[[Any], torch.optim.Optimizer]], list[torch.Tensor]]:
    """`after_steps(make)`: the weights of a small float64 regression after five steps."""

    def run(make: Callable[[Any], torch.optim.Optimizer]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Linear(4, 3).double()
        optimizer = make(model.parameters())
        x, y = torch.randn(8, 4).double(), torch.randn(8, 3).double()
        for _ in range(5):
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
        return list(model.parameters())

    return run
