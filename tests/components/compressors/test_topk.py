"""Top-k."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.framework.registry import build, make


def test_the_largest_are_sent_and_the_rest_stays(send: Any) -> None:
    vector = torch.tensor([1.0, -2.0, 3.0, -4.0])
    out, residual, _ = send({"type": "topk", "k": 2, "value_dtype": "fp32"}, vector)
    assert out.tolist() == [0, 0, 3, -4] and residual.tolist() == [1, -2, 0, 0]


def test_equal_entries_are_the_worst_case(send: Any) -> None:
    """The residual of k = 100 of 1000 equal ones holds exactly nine tenths of the norm."""
    _, residual, _ = send({"type": "topk", "ratio": 0.1, "value_dtype": "fp32"}, torch.ones(1000))
    assert residual.square().sum().item() == 900 and residual[:100].sum() == 0
    compressor = make("compressors/topk", ratio=0.1)
    assert compressor.alpha(compressor.plan(1000)) == 0.1
    assert compressor.alpha_of(torch.ones(1000)) == pytest.approx(0.1)


def test_size_of_a_hundredth_in_chunks() -> None:
    """d = 4,096,000 in chunks of 4096, 41 each: 28 bits an entry, 143,500 bytes."""
    assert make("compressors/topk").plan(4_096_000).body_bytes == 143_500


@pytest.mark.parametrize("coding", ["packed", "elias_fano", "int32"])
@pytest.mark.parametrize("values", ["fp32", "bf16", "fp16", "int8", "int4", "int2"])
@pytest.mark.parametrize("scope", ["chunk", "tensor", "global"])
def test_every_code_says_the_same(coding: str, values: str, scope: str, send: Any) -> None:
    """Places are exact; values as near as their format."""
    near = {"fp32": 0.0, "bf16": 2**-8, "fp16": 2**-11, "int8": 1 / 254, "int4": 1 / 14, "int2": 0.5}[values]
    for numel in (1, 7, 4095, 4097, 8200):
        vector = torch.randn(numel, generator=torch.Generator().manual_seed(numel))
        shapes = [(numel // 2,), (numel - numel // 2,)]
        common = {"type": "topk", "ratio": 0.05, "scope": scope}
        exact, _, _ = send({**common, "value_dtype": "fp32", "index_coding": "int32"}, vector, None, shapes)
        out, residual, _ = send({**common, "value_dtype": values, "index_coding": coding}, vector, None, shapes)
        assert (out - exact).abs().max() <= near * vector.abs().max() + 1e-7
        assert torch.equal(out.nonzero(), exact.nonzero()) or values.startswith("int"), "a value may round to zero"
        torch.testing.assert_close(out + residual, vector)


def test_units_of_a_scope(send: Any) -> None:
    vector = torch.cat([torch.full((8,), 9.0), torch.ones(4)])
    for scope, kept in (("global", [3, 0]), ("tensor", [2, 1]), ("chunk", [2, 1])):
        recipe = {"type": "topk", "ratio": 0.25, "scope": scope, "chunk": 8}
        out, _, _ = send(recipe, vector, None, [(2, 4), (4,)])
        assert [int((part != 0).sum()) for part in (out[:8], out[8:])] == kept


def test_more_than_there_is_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^k: can't keep 5 entries of 4"):
        make("compressors/topk", k=5).plan(4)


def test_matching_sets_the_ratio() -> None:
    found = make("compressors/topk", value_dtype="fp32").match(0.1, 500)
    compressor = build(found, "compressors")
    assert (compressor.alpha(compressor.plan(500)), compressor.scope, compressor.value_dtype) == (0.1, "global", "fp32")
    with pytest.raises(ValueError, match=r"^match: compressors/topk has no closed-form"):
        make("compressors/topk", value_dtype="int4").match(0.1, 500)
