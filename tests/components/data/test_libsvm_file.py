"""libsvm_file: what its lines become, and lines that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

LINES = "-1 1:0.5 3:2\n+1 2:-1\n+1 1:1 2:1 3:1\n-1 3:4\n"


def read(tmp_path: Path, text: str, **arguments: object) -> object:
    (tmp_path / "small.libsvm").write_text(text)
    return make("data/libsvm_file", path=str(tmp_path / "small.libsvm"), val=0.0, test=0.0, **arguments)


def test_lines_become_dense_rows_and_labels_classes(tmp_path: Path) -> None:
    data = read(tmp_path, LINES)
    tensors = data.load(0)["train"].tensors
    assert tensors["x"].tolist() == [[0.5, 0, 2], [0, -1, 0], [1, 1, 1], [0, 0, 4]]
    assert tensors["y"].tolist() == [0, 1, 1, 0] and data.facts["class_names"] == ["-1", "1"]
    wide = read(tmp_path, LINES, features=5).load(0)["train"].tensors["x"]
    assert wide.shape == (4, 5) and wide.dtype == torch.float32


def test_labels_between_whole_numbers_are_measured_targets(tmp_path: Path) -> None:
    data = read(tmp_path, LINES.replace("-1 1", "0.25 1"))
    assert data.load(0)["train"].tensors["y"].shape == (4, 1) and "num_classes" not in data.facts
    with pytest.raises(RunError, match="label 0.25 of line 1 is no class number"):
        read(tmp_path, LINES.replace("-1 1", "0.25 1"), target_type="class").load(0)


def test_other_text_is_told_with_the_form_of_a_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="small.libsvm") as caught:
        read(tmp_path, "a,b,c\n1,2,3\n").load(0)
    assert "label index:value" in str(caught.value)
    with pytest.raises(RunError, match="no rows"):
        read(tmp_path, "").load(0)


def test_a_number_beyond_float32_is_told_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"feature 3 of example 2 is 1e\+300, which float32 cannot hold"):
        read(tmp_path, "1 1:1\n-1 1:2 3:1e300\n" + LINES).load(0)
    with pytest.raises(RunError, match="label of example 1 is nan, which float32 cannot hold"):
        read(tmp_path, "nan 1:1\n" + LINES).load(0)


def test_a_text_in_utf16_is_told(tmp_path: Path) -> None:
    path = tmp_path / "small.libsvm"
    path.write_bytes(LINES.encode("utf-16"))
    with pytest.raises(RunError, match=r"is UTF-16, not UTF-8\n    save it as UTF-8 or ASCII"):
        make("data/libsvm_file", path=str(path)).load(0)


def test_large_labels_keep_names_of_their_own(tmp_path: Path) -> None:
    data = read(tmp_path, "".join(f"{1234567 + i % 2} 1:{i}\n" for i in range(10)))
    data.load(0)
    assert data.facts["class_names"] == ["1234567", "1234568"]
