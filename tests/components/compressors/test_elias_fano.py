"""Rising numbers in few bits."""

from __future__ import annotations

import pytest
import torch

from raycipe.components.compressors._elias_fano import coded_bytes, decode, encode


@pytest.mark.parametrize(("universe", "count"), [(1, 1), (7, 7), (7, 1), (4096, 41), (4097, 41), (100_003, 1_000)])
def test_numbers_survive(universe: int, count: int) -> None:
    chosen = torch.randperm(universe, generator=torch.Generator().manual_seed(0))[:count].sort().values
    out = torch.empty(coded_bytes(universe, count), dtype=torch.uint8)
    encode(chosen, universe, out)
    assert torch.equal(decode(out, universe, count), chosen)


def test_the_edges_survive() -> None:
    for numbers in ([0, 1, 2], [997, 998, 999], [0, 500, 999]):
        out = torch.empty(coded_bytes(1000, 3), dtype=torch.uint8)
        encode(torch.tensor(numbers), 1000, out)
        assert decode(out, 1000, 3).tolist() == numbers


def test_a_hundredth_takes_less_than_nine_bits_a_number() -> None:
    """The specification's prototype measured 8.56 bits at 1 %; packed indices of chunks take 12."""
    assert coded_bytes(1_000_000, 10_000) * 8 / 10_000 == pytest.approx(8.56, abs=0.02)
