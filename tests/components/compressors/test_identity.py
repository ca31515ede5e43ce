"""Everything, rounded."""

from __future__ import annotations

from typing import Any

import pytest
import torch


@pytest.mark.parametrize(("dtype", "size"), [("fp64", 8), ("fp32", 4), ("bf16", 2), ("fp16", 2)])
def test_every_entry_is_sent(dtype: str, size: int, send: Any) -> None:
    vector = torch.tensor([1.0, -2.5, 0.0, 1 / 3], dtype=torch.float64)
    out, residual, count = send({"type": "identity", "dtype": dtype}, vector)
    assert count == 24 + 4 * size
    assert torch.equal(out[:3], vector[:3]) and torch.equal(out + residual, vector)
    assert bool(residual[3] != 0) == (dtype != "fp64")


def test_a_value_too_large_for_the_format_stays_in_the_residual(send: Any) -> None:
    out, residual, _ = send({"type": "identity", "dtype": "fp16"}, torch.tensor([1e6, -1e6]))
    assert out.tolist() == [65504, -65504]
    assert residual.tolist() == [1e6 - 65504, 65504 - 1e6]
