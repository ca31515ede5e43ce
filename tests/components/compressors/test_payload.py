"""The header."""

from __future__ import annotations

import pytest
import torch

from raycipe.components.compressors._payload import Header, PayloadMismatch, codec_of, opened, seal
from raycipe.framework import catalogue
from raycipe.framework.registry import get

HEADER = Header(codec=7, fragment=3, round=70_000, numel=5_000_000_000)


def test_what_was_sealed_opens_and_other_things_do_not() -> None:
    payload = torch.arange(60, dtype=torch.uint8)
    seal(payload, HEADER)
    assert opened(payload, HEADER, 1, 0)
    for other in (HEADER._replace(codec=8), HEADER._replace(fragment=2), HEADER._replace(round=1)):
        with pytest.raises(PayloadMismatch, match=r"rank 0 waited for Header\(.*of rank 1, which sent Header\(codec=7"):
            opened(payload, other, 1, 0)
    payload[0] = 0
    with pytest.raises(PayloadMismatch):
        opened(payload, HEADER, 1, 0)


def test_the_first_bytes_are_fixed() -> None:
    payload = torch.zeros(24, dtype=torch.uint8)
    seal(payload, HEADER)
    assert payload.tolist()[:8] == [0x43, 0x52, 1, 7, 3, 0, 0, 0], "little-endian 0x5243, version, codec, fragment"


def test_damage_is_seen_with_a_checksum_alone() -> None:
    for checksum in (True, False):
        payload = torch.arange(60, dtype=torch.uint8)
        seal(payload, HEADER, checksum=checksum)
        payload[50] ^= 1
        if checksum:
            with pytest.raises(PayloadMismatch, match="rank 2 got a damaged payload from rank 1"):
                opened(payload, HEADER, 1, 2)
        else:
            assert opened(payload, HEADER, 1, 2)


def test_a_skipped_one_holds_nothing() -> None:
    payload = torch.zeros(30, dtype=torch.uint8)
    seal(payload, HEADER, skipped=True)
    assert not opened(payload, HEADER, 0, 0)


def test_every_compressor_has_its_own_codec() -> None:
    names = [name.partition("/")[2] for name in catalogue.load()["$defs"] if name.startswith("compressors/")]
    codecs = {codec_of(get("compressors", name)) for name in names}
    assert len(codecs) == len(names) == 8
