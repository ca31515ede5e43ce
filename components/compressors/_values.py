"""How single values are written: floats of 32 or 16 bits, or whole numbers of 8, 4 or 2 bits with one scale a row."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from raycipe.components.compressors._bits import pack, packed_bytes, unpack

Floating = Literal["fp32", "bf16", "fp16"]
Values = Literal["fp32", "bf16", "fp16", "int8", "int4", "int2"]
FLOATS = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WHOLE_BITS = {"int8": 8, "int4": 4, "int2": 2}


def coded_bytes(rows: int, columns: int, form: str) -> int:
    """Bytes of rows × columns values."""
    if form in FLOATS:
        return rows * columns * FLOATS[form].itemsize
    return 4 * rows + packed_bytes(rows * columns, WHOLE_BITS[form])


def encode(values: Tensor, form: str, out: Tensor) -> Tensor:
    """Write `values` (rows, columns) into `out` (uint8); gives them back as they will be read."""
    if form in FLOATS:
        coded = rounded(values, FLOATS[form])
        out.copy_(as_bytes(coded))
        return coded.to(values.dtype)
    bits = WHOLE_BITS[form]
    top = 2 ** (bits - 1) - 1
    scale = (values.abs().amax(1) / top).float()
    steps = scale.to(values.dtype).unsqueeze(1)
    whole = torch.where(steps > 0, values / steps, 0).round_().clamp_(-top, top)
    out[: 4 * len(scale)].copy_(as_bytes(scale))
    pack((whole.view(-1) + top).to(torch.int16), bits, out[4 * len(scale) :])
    return whole * steps


def decode(data: Tensor, rows: int, columns: int, form: str, dtype: torch.dtype) -> Tensor:
    """The values (rows, columns) in `dtype`."""
    if form in FLOATS:
        return from_bytes(data, FLOATS[form]).view(rows, columns).to(dtype)
    bits = WHOLE_BITS[form]
    codes = unpack(data[4 * rows :], rows * columns, bits, torch.int16).view(rows, columns)
    scale = from_bytes(data[: 4 * rows], torch.float32).to(dtype).unsqueeze(1)
    return (codes - (2 ** (bits - 1) - 1)).to(dtype) * scale


def rounded(values: Tensor, dtype: torch.dtype, copy: bool = False) -> Tensor:
    """In another format; what is too large for it becomes its largest number, and the residual keeps the rest."""
    if dtype.itemsize >= values.dtype.itemsize:
        return values.to(dtype, copy=copy)
    most = torch.finfo(dtype).max
    return values.clamp(-most, most).to(dtype)


def as_bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


def from_bytes(data: Tensor, dtype: torch.dtype) -> Tensor:
    """A copy of bytes (whose place in memory may not suit the format) as numbers."""
    return data.clone().view(dtype)
