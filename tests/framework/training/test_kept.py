"""Data kept for the next training in the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from raycipe.components.data.digits import Digits
from raycipe.framework.contracts import Data
from raycipe.framework.splits import MapSplit, Split, TensorSplit
from raycipe.framework.training import kept


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    kept._kept.clear()
    yield
    kept._kept.clear()


def load(seed: int = 0) -> tuple[Data, dict[str, Split]]:
    data = Digits()
    return data, data.load(seed)


def test_the_same_words_and_seed_find_the_same_tensors_and_others_find_nothing() -> None:
    data, splits = load()
    kept.keep({"type": "digits"}, 0, data, splits)
    found = kept.recall({"type": "digits"}, 0)
    assert found is not None and found[0].facts == data.facts
    old, new = splits["train"], found[1]["train"]
    assert isinstance(old, TensorSplit) and isinstance(new, TensorSplit)
    assert new.tensors["x"] is old.tensors["x"]
    assert kept.recall({"type": "digits"}, 1) is None and kept.recall({"type": "digits", "val": 0.2}, 0) is None


def test_what_one_training_adds_to_the_data_is_not_seen_by_the_next() -> None:
    kept.keep("digits", 0, *load())
    first = kept.recall("digits", 0)
    assert first is not None
    first[0].facts["num_classes"] = 3
    del first[1]["val"]
    assert isinstance(first[1]["train"], TensorSplit)
    first[1]["train"].tensors["extra"] = torch.zeros(1)
    second = kept.recall("digits", 0)
    assert second is not None and second[0].facts["num_classes"] == 10 and "val" in second[1]
    assert isinstance(second[1]["train"], TensorSplit) and "extra" not in second[1]["train"].tensors


def test_tensors_that_a_training_has_changed_are_loaded_again() -> None:
    data, splits = load()
    kept.keep("digits", 0, data, splits)
    assert isinstance(splits["train"], TensorSplit)
    splits["train"].tensors["x"][0] += 1
    assert kept.recall("digits", 0) is None


def test_large_data_and_those_read_one_by_one_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    data, splits = load()
    kept.keep("digits", 0, data, {"train": MapSplit([], 3)})
    assert kept.recall("digits", 0) is None
    monkeypatch.setattr(kept, "WHOLE_BYTES", 1000)
    kept.keep("digits", 0, data, splits)
    assert kept.recall("digits", 0) is None
