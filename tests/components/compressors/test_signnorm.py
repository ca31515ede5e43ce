"""Scaled signs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from raycipe.framework.registry import make


def test_signs_and_sizes(send: Any) -> None:
    vector = torch.tensor([1.0, -3.0, 0.0, 4.0, 0, 0, 0, 0, 5.0, -7.0])
    out, _, count = send({"type": "signnorm", "block": 8}, vector)
    assert out.tolist() == [1, -1, 1, 1, 1, 1, 1, 1, 6, -6], "zero counts as positive; a short block has its own size"
    assert count == 24 + 2 * 4 + 2


def test_equal_entries_are_sent_whole() -> None:
    assert make("compressors/signnorm").alpha_of(torch.full((1000,), -3.0)) == 1


def test_gaussian_entries_keep_two_over_pi() -> None:
    vector = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
    assert make("compressors/signnorm").alpha_of(vector) == pytest.approx(2 / math.pi, abs=0.01)


def test_a_single_entry_is_the_worst_case() -> None:
    vector = torch.zeros(4096)
    vector[7] = 1
    compressor = make("compressors/signnorm")
    assert compressor.alpha_of(vector) == pytest.approx(compressor.alpha(compressor.plan(4096))) == 1 / 4096


def test_blocks_are_whole_bytes() -> None:
    with pytest.raises(ValueError, match=r"^block: must be a multiple of 8, not 12"):
        make("compressors/signnorm", block=12)


def test_there_is_nothing_to_match() -> None:
    with pytest.raises(ValueError, match=r"^match: compressors/signnorm has no closed-form contraction factor"):
        make("compressors/signnorm").match(0.1, 100)
