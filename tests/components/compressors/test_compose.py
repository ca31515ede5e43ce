"""One on what another keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.framework.registry import make

TOPK = {"type": "topk", "ratio": 0.1}


def test_the_second_sees_what_the_first_keeps(send: Any) -> None:
    vector = torch.arange(1.0, 101)
    out, residual, _ = send({"type": "compose", "first": TOPK, "then": {"type": "signnorm", "block": 8}}, vector)
    assert out[:90].abs().sum() == 0
    assert out[90:].tolist() == [94.5] * 8 + [99.5] * 2
    assert torch.equal(out + residual, vector)


def test_the_errors_are_orthogonal(send: Any) -> None:
    vector = torch.randn(4096, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kept, _, _ = send({**TOPK, "value_dtype": "fp32"}, vector)
    then = {"type": "qsgd", "levels": 4}
    out, residual, _ = send({"type": "compose", "first": TOPK, "then": then}, vector)
    inner = (kept - out).square().sum()
    assert float(residual.square().sum()) == pytest.approx(float((vector - kept).square().sum() + inner), rel=1e-6)


def test_the_factor_is_at_least_the_product() -> None:
    compressor = make("compressors/compose", first=TOPK, then={"type": "randk", "ratio": 0.5})
    assert compressor.alpha(compressor.plan(1000)) == pytest.approx(0.05)


@pytest.mark.parametrize("first", ["signnorm", {"type": "randk", "scaled": True}])
def test_the_first_must_keep_entries_as_they_are(first: Any) -> None:
    with pytest.raises(ValueError, match=r"^first: must keep some entries as they are"):
        make("compressors/compose", first=first, then="identity")
