"""What tells data from changed data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.framework import splits
from raycipe.framework.splits import MapSplit, StreamSplit, TensorSplit, digests, fingerprint


def memory(**changes: Any) -> TensorSplit:
    return TensorSplit({"x": torch.arange(12.0).reshape(6, 2), "y": torch.arange(6), **changes})


def test_every_tensor_of_a_split_has_its_own_digest() -> None:
    before = digests(memory())
    other = torch.arange(12.0).reshape(6, 2)
    other[3, 1] = 99.0
    after = digests(memory(x=other))
    assert before["x"] != after["x"] and before["y"] == after["y"]
    assert digests(memory()) == before


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.bool, torch.int8])
def test_digests_tell_dtypes_and_shapes_apart(dtype: torch.dtype) -> None:
    values = torch.zeros(6, 2)
    assert digests(memory(x=values.to(dtype)))["x"] != digests(memory(x=values))["x"]
    assert digests(memory(x=torch.zeros(6, 1, 2)))["x"] != digests(memory(x=values))["x"]
    assert digests(memory(x=torch.zeros(2, 6).T))["x"] == digests(memory(x=values))["x"]


def test_of_large_tensors_the_ends_count(monkeypatch: Any) -> None:
    monkeypatch.setattr(splits, "WHOLE_BYTES", 64)
    monkeypatch.setattr(splits, "END_BYTES", 8)
    plain = torch.zeros(6, 8)
    first, last, middle = plain.clone(), plain.clone(), plain.clone()
    first[0, 0] = last[5, 7] = middle[3, 3] = 1.0
    known = {digests(memory(x=values))["x"] for values in (plain, first, last)}
    assert len(known) == 3 and digests(memory(x=middle))["x"] == digests(memory(x=plain))["x"]


def stream(folder: Path, texts: list[bytes], rows: int = 2) -> StreamSplit:
    for number, text in enumerate(texts):
        (folder / f"part-{number}.csv").write_bytes(text)
    files = [str(folder / f"part-{number}.csv") for number in range(len(texts))]
    return StreamSplit(files, [rows] * len(texts), "csv", ["x"], lambda columns: {})


def test_streamed_files_are_told_apart_by_size_rows_and_ends(tmp_path: Path) -> None:
    text = b"x\n1\n2\n"
    before = digests(stream(tmp_path, [text, text]))
    assert list(before) == ["file 1 (part-0.csv)", "file 2 (part-1.csv)"]
    after = digests(stream(tmp_path, [text, b"x\n1\n3\n"]))
    assert before["file 1 (part-0.csv)"] == after["file 1 (part-0.csv)"]
    assert before["file 2 (part-1.csv)"] != after["file 2 (part-1.csv)"]
    assert digests(stream(tmp_path, [text, text], rows=3)) != before


def test_a_fingerprint_covers_all_splits_unless_one_is_read_by_example(tmp_path: Path) -> None:
    whole = {"train": memory(), "val": stream(tmp_path, [b"x\n1\n2\n"])}
    found = fingerprint(whole)
    assert found is not None and len(found) == 64 and fingerprint(dict(reversed(whole.items()))) == found
    assert fingerprint({**whole, "val": memory()}) != found
    assert fingerprint({**whole, "test": MapSplit([], 3)}) is None
    assert digests(MapSplit([], 3)) == {"length": "3"}
