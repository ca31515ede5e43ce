"""A stand-in for the end of a run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from raycipe.framework.contracts import TensorSplit, Trained


@pytest.fixture
def trained() -> Any:
    """`trained(model, x, y)`: a model and a test split of x, whose columns are classes c0, c1, ..."""

    def make(model: nn.Module, x: torch.Tensor | None = None, y: Any = None, **rest: Any) -> Trained:
        splits = {} if x is None else {"test": TensorSplit({"x": x, "y": torch.as_tensor(y)})}
        facts = {} if x is None else {"num_classes": x.shape[1], "class_names": [f"c{k}" for k in range(x.shape[1])]}
        return Trained(recipe={}, splits=splits, facts=facts, model=model.eval(), **rest)

    return make
