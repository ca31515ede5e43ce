"""Sorted whole numbers in about log2(universe / count) + 2 bits each.

Of each number the low l = floor(log2(universe / count)) bits are packed as they are. The high parts, which never fall,
stand in a bitmap of count + (universe >> l) + 1 bits: number i with high part h sets bit h + i. Reading, the position
of the i-th one less i is the high part again.

Reference: P. Elias, Efficient Storage and Retrieval by Content and Address of Static Files, JACM 1974.
"""

from __future__ import annotations

import torch
from torch import Tensor

from raycipe.components.compressors._bits import pack, pack_flags, packed_bytes, unpack, unpack_flags
from raycipe.components.compressors._select import positions_of


def low_bits(universe: int, count: int) -> int:
    return max(0, (universe // count).bit_length() - 1)


def coded_bytes(universe: int, count: int) -> int:
    """Bytes that `count` numbers below `universe` take."""
    low = low_bits(universe, count)
    return packed_bytes(count, low) + packed_bytes(_bitmap_bits(universe, count), 1)


def encode(numbers: Tensor, universe: int, out: Tensor) -> None:
    """Write numbers (int64, rising) into `out` (uint8, `coded_bytes` of them)."""
    count = numbers.numel()
    low = low_bits(universe, count)
    size = packed_bytes(count, low)
    if low:
        pack(numbers & (2**low - 1), low, out[:size])
    bitmap = torch.zeros(_bitmap_bits(universe, count), dtype=torch.bool, device=numbers.device)
    bitmap[(numbers >> low) + torch.arange(count, device=numbers.device)] = True
    pack_flags(bitmap, out[size:])


def decode(data: Tensor, universe: int, count: int) -> Tensor:
    """The numbers, int64 and rising."""
    low = low_bits(universe, count)
    size = packed_bytes(count, low)
    ones = positions_of(unpack_flags(data[size:], _bitmap_bits(universe, count)).bool())
    numbers = (ones - torch.arange(count, device=data.device)) << low
    return numbers | unpack(data[:size], count, low, torch.int64) if low else numbers


def _bitmap_bits(universe: int, count: int) -> int:
    return count + (universe >> low_bits(universe, count)) + 1
