"""The header of a payload: 24 bytes, little-endian, by which a receiver knows that it got what it waited for.

| bytes | what |
|---|---|
| 2 | magic 0x5243 |
| 1, 1 | version, codec (a number from the compressor's type) |
| 2, 2 | fragment, flags (1: the sender had nothing finite to send; 2: the checksum is set) |
| 4 | round |
| 8 | entries of the fragment |
| 4 | CRC-32 of the body |
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from raycipe.framework.contracts import HEADER_BYTES, Compressor

LAYOUT = struct.Struct("<HBBHHIQI")
MAGIC, VERSION = 0x5243, 1
SKIPPED, CHECKED = 1, 2


class Header(NamedTuple):
    """What sender and receiver must agree on."""

    codec: int
    fragment: int
    round: int
    numel: int


class PayloadMismatch(RuntimeError):
    """A rank received another payload than it waited for."""


def codec_of(compressor: Compressor) -> int:
    return zlib.crc32(compressor.type_name.encode()) & 0xFF


def seal(payload: Tensor, header: Header, skipped: bool = False, checksum: bool = False) -> None:
    """Write the header, in place."""
    flags = SKIPPED * skipped + CHECKED * checksum
    crc = _checksum(payload) if checksum else 0
    place = (header.fragment & 0xFFFF, flags, header.round & 0xFFFFFFFF, header.numel, crc)
    packed = LAYOUT.pack(MAGIC, VERSION, header.codec, *place)
    payload[:HEADER_BYTES] = torch.from_numpy(np.frombuffer(packed, dtype=np.uint8).copy()).to(payload.device)


def opened(payload: Tensor, header: Header, sender: int, receiver: int) -> bool:
    """Check the header against the one waited for; gives whether the payload holds anything.

    Raises PayloadMismatch naming both ranks.
    """
    packed = payload[:HEADER_BYTES].cpu().numpy().tobytes()
    magic, version, codec, fragment, flags, round_, numel, crc = LAYOUT.unpack(packed)
    found = Header(codec, fragment, round_, numel)
    wanted = header._replace(fragment=header.fragment & 0xFFFF, round=header.round & 0xFFFFFFFF)
    if (magic, version) != (MAGIC, VERSION) or found != wanted:
        raise PayloadMismatch(f"rank {receiver} waited for {wanted} of rank {sender}, which sent {found}")
    if flags & CHECKED and crc != _checksum(payload):
        raise PayloadMismatch(f"rank {receiver} got a damaged payload from rank {sender}: {found}")
    return not flags & SKIPPED


def _checksum(payload: Tensor) -> int:
    return zlib.crc32(payload[HEADER_BYTES:].cpu().numpy().tobytes())
