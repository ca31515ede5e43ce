"""Which examples the requests name, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.framework.contracts import MapSplit, Split, TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def splits(**more: torch.Tensor) -> dict[str, Split]:
    y = torch.arange(40) % 4
    x = torch.arange(80, dtype=torch.float32).reshape(40, 2)
    return {"train": TensorSplit({"x": x, "y": y, **more}), "test": TensorSplit({"x": x[:8], "y": y[:8]})}


def select(type_: str, **arguments: Any) -> list[int]:
    found: torch.Tensor = make(f"forget/{type_}", **arguments).select(splits(), 0)
    assert found.dtype == torch.int64 and found.tolist() == sorted(set(found.tolist()))
    return found.tolist()


def test_a_class_is_meant_in_every_split() -> None:
    assert select("one_class", label=2) == list(range(2, 40, 4))
    assert make("forget/one_class", label=2).related(splits()["test"]).tolist() == [2, 6]


def test_a_draw_depends_on_its_seed_alone() -> None:
    first = select("random", fraction=0.25)
    assert len(first) == 10 and first == select("random", fraction=0.25, seed=0) != select("random", seed=1)
    assert len(select("random", fraction=0.01)) == 1
    assert make("forget/random", fraction=0.5).related(splits()["test"]) is None


def test_ids_come_from_the_recipe_or_from_a_file(tmp_path: Path) -> None:
    assert select("indices", ids=[7, 3]) == [3, 7]
    file = tmp_path / "ids.txt"
    file.write_text("12\n\n# two more\n 4  # this one\n")
    assert select("indices", path=str(file)) == [4, 12]
    file.write_text("12\nseven\n")
    with pytest.raises(RunError, match=r"ids.txt:2: `seven` is no id"):
        select("indices", path=str(file))


def test_a_query_bounds_a_feature_or_the_mean_of_a_field() -> None:
    assert select("query", feature=1, at_least=75) == [37, 38, 39]
    assert select("query", at_most=4.5) == [0, 1, 2]
    assert select("query", field="y", at_least=3, at_most=3) == list(range(3, 40, 4))


@pytest.mark.parametrize(
    ("type_", "arguments", "message"),
    [
        ("one_class", {"label": 9}, "no training example is of class 9"),
        ("indices", {"ids": [3, 40]}, "there is no training example 40: the ids are 0 to 39"),
        ("indices", {"ids": [3, 5, 3]}, "example 3 is named twice"),
        ("indices", {"ids": list(range(40))}, "all 40 training examples are named: nothing would be left"),
        ("query", {"feature": 2, "at_least": 0}, "`x` has 2 numbers an example, so there is no number 2"),
        ("query", {"field": "z", "at_least": 0}, "the examples have no `z`"),
        ("query", {"at_least": 1e9}, "no training example is within the bounds"),
        ("label_noise", {}, "the data do not tell which labels are wrong"),
    ],
)
def test_what_can_not_be_requested_is_told(type_: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        select(type_, **arguments)


@pytest.mark.parametrize(
    ("type_", "arguments", "message"),
    [
        ("indices", {}, "ids: say which examples"),
        ("query", {}, "at_least: give at least one bound"),
        ("query", {"at_least": 2.0, "at_most": 1.0}, "at_least: 2.0 lies above at_most 1.0"),
    ],
)
def test_requests_that_say_nothing_are_refused(type_: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(f"forget/{type_}", **arguments)


def test_examples_that_are_read_one_by_one_are_named_by_their_ids() -> None:
    split: dict[str, Split] = {"train": MapSplit(None, 40)}
    with pytest.raises(RunError, match="do not lie in memory"):
        make("forget/one_class", label=1).select(split, 0)
    assert make("forget/indices", ids=[1]).select(split, 0).tolist() == [1]


def test_measured_targets_have_no_classes() -> None:
    with pytest.raises(RunError, match="the examples have no classes"):
        make("forget/one_class", label=1).select({"train": TensorSplit({"y": torch.randn(4, 1)})}, 0)


def test_the_mislabelled_examples_are_those_whose_label_was_exchanged() -> None:
    data = make("data/noisy_labels", data="digits", fraction=0.2)
    found = data.load(3)
    train = found["train"].tensors
    ids = make("forget/label_noise").select(found, 3)
    assert len(ids) == round(0.2 * len(train["y"])) == int((train["y"] != train["clean_y"]).sum())
    clean = make("data/digits").load(3)
    assert torch.equal(train["clean_y"], clean["train"].tensors["y"])
    assert torch.equal(found["test"].tensors["y"], clean["test"].tensors["y"])


def test_data_without_a_request_keep_all_others_in_order() -> None:
    whole = make("data/digits").load(0)
    found = make("data/without", data="digits", forget={"type": "one_class", "label": 3}).load(0)
    stays = whole["train"].tensors["y"] != 3
    assert torch.equal(found["train"].tensors["x"], whole["train"].tensors["x"][stays])
    assert torch.equal(found["test"].tensors["x"], whole["test"].tensors["x"])
