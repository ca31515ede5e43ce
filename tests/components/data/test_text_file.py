"""Text windows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def test_y_is_x_one_token_later_and_windows_do_not_overlap(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("abcdefghij" * 3)
    data = make("data/text_file", path=str(path), context=4, val=0.2, test=0.2)
    train = data.load(0)["train"].tensors
    assert data.facts["symbols"] == list("abcdefghij") and data.facts["vocab_size"] == 10
    assert train["x"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1], [2, 3, 4, 5]]
    assert train["y"].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 0, 1, 2], [3, 4, 5, 6]]


def test_parts_follow_each_other_and_share_no_token(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(bytes(range(100)))
    data = make("data/text_file", path=str(path), level="bytes", context=3, stride=1, val=0.1, test=0.2)
    splits = data.load(0)
    ranges = {name: (int(s.tensors["x"].min()), int(s.tensors["y"].max())) for name, s in splits.items()}
    assert ranges == {"train": (0, 69), "val": (70, 79), "test": (80, 99)}
    assert data.facts["vocab_size"] == 256 and len(splits["train"]) == 67


def test_characters_are_code_points_not_bytes(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("öä€😀" * 40, encoding="utf-8")
    data = make("data/text_file", path=str(path), context=4)
    data.load(0)
    assert data.facts["symbols"] == sorted("öä€😀")


def test_the_default_text_is_the_help_of_python() -> None:
    data = make("data/text_file", context=32)
    train = data.load(0)["train"].tensors
    symbols = data.facts["symbols"]
    text = "".join(symbols[token] for row in train["x"][:200].tolist() for token in row)
    assert "assert" in text and 90 <= len(symbols) <= 250
    assert torch.equal(train["x"], data.load(1)["train"].tensors["x"])


def test_unusable_texts_are_told(tmp_path: Path) -> None:
    def message(content: bytes, **arguments: object) -> str:
        path = tmp_path / "t.txt"
        path.write_bytes(content)
        with pytest.raises(RunError) as caught:
            make("data/text_file", path=str(path), **arguments).load(0)
        return str(caught.value)

    assert "line 2: byte 0xff is not UTF-8" in message(b"good\n\xffbad" * 200)
    assert "the file is empty" in message(b"")
    assert "is UTF-16, not UTF-8\n    convert the text to UTF-8, or set data.level: bytes" in message(b"\xff\xfea\0")
    short = message(b"x" * 50)
    assert "the train part has 46 tokens" in short and "lower data.val or data.test, or bring a longer text" in short
    assert "the val part has 5 tokens, too few for one window of context + 1 = 65" in message(b"x" * 100)
    assert "raise data.val, or bring a longer text" in message(b"x" * 100)
    with pytest.raises(RunError, match="No such file"):
        make("data/text_file", path=str(tmp_path / "none.txt")).load(0)
