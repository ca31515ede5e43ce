"""What tests of compressors share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from raycipe.framework.contracts import Draw
from raycipe.framework.registry import build

Sent = tuple[Tensor, Tensor, int]


@pytest.fixture
def send() -> Callable[..., Sent]:
    """`send({"type": "topk"}, vector)` gives (C(v), residual, bytes of the payload)."""

    def work(recipe: dict[str, Any], vector: Tensor, draw: Draw | None = None, shapes: Any = ()) -> Sent:
        compressor = build(recipe, "compressors")
        plan, residual = compressor.plan(vector.numel(), shapes), vector.clone()
        payload = compressor.compress_(residual, plan, draw or Draw(0))
        assert payload.numel() in (0, plan.payload_bytes)
        out = torch.zeros_like(vector)
        compressor.add_decoded_(payload, plan, out)
        return out, residual, payload.numel()

    return work
