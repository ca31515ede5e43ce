"""Codes of any width survive packing, in the bytes that were announced."""

from __future__ import annotations

import pytest
import torch

from raycipe.components.compressors._bits import pack, packed_bytes, unpack


@pytest.mark.parametrize("bits", [*range(1, 21), 31])
@pytest.mark.parametrize("count", [1, 7, 8, 4095, 4097])
def test_codes_survive_packing(bits: int, count: int) -> None:
    codes = torch.randint(0, 2**bits, (count,), generator=torch.Generator().manual_seed(bits))
    out = torch.full((packed_bytes(count, bits),), 255, dtype=torch.uint8)
    pack(codes, bits, out)
    assert torch.equal(unpack(out, count, bits, torch.int64), codes)
    assert packed_bytes(count, bits) <= (count * bits + 7) // 8 + 3, "at most a byte lost in each piece"


def test_twelve_bits_are_a_low_byte_and_a_half() -> None:
    out = torch.empty(packed_bytes(2, 12), dtype=torch.uint8)
    pack(torch.tensor([0xABC, 0x123]), 12, out)
    assert out.tolist() == [0xBC, 0x23, 0x1A]
