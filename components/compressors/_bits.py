"""Codes of a few bits in bytes, without strided access.

A width is cut into pieces of 8, 4, 2 and 1 bits (12 = 8 + 4), each stored for all codes before the next. A piece of w
< 8 bits is planar: the codes are cut into 8 / w equal runs, and byte i holds entry i of every run. Single bits lie in
order, lowest bit first, as NumPy packs them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

PIECES = (4, 2, 1)


def packed_bytes(count: int, bits: int) -> int:
    """Bytes that `count` codes of `bits` bits take."""
    return sum(_piece_bytes(count, width) for width, _ in _pieces(bits))


def pack(codes: Tensor, bits: int, out: Tensor) -> None:
    """Write codes (integers in 0 .. 2^bits - 1, one dimension) into `out` (uint8, `packed_bytes` of them)."""
    at = 0
    for width, shift in _pieces(bits):
        size = _piece_bytes(codes.numel(), width)
        piece = codes >> shift if shift else codes
        if shift + width < bits:
            piece = piece & (2**width - 1)
        _pack_piece(piece.to(torch.uint8), width, out[at : at + size])
        at += size


def unpack(data: Tensor, count: int, bits: int, dtype: torch.dtype) -> Tensor:
    """The codes out of `packed_bytes(count, bits)` bytes."""
    at, codes = 0, None
    for width, shift in _pieces(bits):
        size = _piece_bytes(count, width)
        piece = _unpack_piece(data[at : at + size], count, width).to(dtype)
        codes = piece if codes is None else codes.bitwise_or_(piece << shift)
        at += size
    assert codes is not None, "bits must be at least 1"
    return codes


def _pieces(bits: int) -> list[tuple[int, int]]:
    """(width, shift) of each piece, the lowest bits first."""
    widths = [8] * (bits // 8) + [width for width in PIECES if bits % 8 & width]
    return [(width, sum(widths[:i])) for i, width in enumerate(widths)]


def _piece_bytes(count: int, width: int) -> int:
    return -(-count * width // 8) if width in (8, 1) else -(-count // (8 // width))


def _pack_piece(codes: Tensor, width: int, out: Tensor) -> None:
    if width == 8:
        out.copy_(codes)
    elif width == 1:
        pack_flags(codes.bool(), out)
    else:
        size = out.numel()
        out.copy_(codes[:size])
        for plane in range(1, 8 // width):
            part = codes[plane * size : (plane + 1) * size]
            out[: part.numel()] |= part << plane * width


def _unpack_piece(data: Tensor, count: int, width: int) -> Tensor:
    if width == 8:
        return data
    if width == 1:
        return unpack_flags(data, count)
    planes = [(data >> plane * width) & (2**width - 1) for plane in range(8 // width)]
    return torch.cat(planes)[:count]


def pack_flags(flags: Tensor, out: Tensor) -> None:
    """Booleans, eight to a byte."""
    if flags.device.type == "cpu":
        out.copy_(torch.from_numpy(np.packbits(flags.numpy(), bitorder="little")))
        return
    padded = torch.zeros(out.numel() * 8, dtype=torch.uint8, device=flags.device)
    padded[: flags.numel()] = flags
    out.copy_((padded.view(-1, 8) << torch.arange(8, device=flags.device)).sum(1))


def unpack_flags(data: Tensor, count: int) -> Tensor:
    """uint8 zeros and ones."""
    if data.device.type == "cpu":
        return torch.from_numpy(np.unpackbits(data.numpy(), count=count, bitorder="little"))
    bits = (data.unsqueeze(1) >> torch.arange(8, dtype=torch.uint8, device=data.device)) & 1
    return bits.reshape(-1)[:count]
