"""The user's own CSV files: splits, types, and what is said of an unusable cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from raycipe.framework.contracts import Split, StreamSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make
from raycipe.framework.training.feed import in_order


def write(path: Path, rows: list[str], header: str = "length,width,colour,species") -> str:
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def flowers(count: int) -> list[str]:
    generator = np.random.default_rng(0)
    names = ["iris", "rose", "tulip"]
    return [f"{generator.normal() + i % 3:.4f},{i},{['red', 'blue'][i % 2]},{names[i % 3]}" for i in range(count)]


@pytest.fixture
def table(tmp_path: Path) -> str:
    return write(tmp_path / "flowers.csv", flowers(100))


def load(seed: int = 0, **arguments: Any) -> tuple[dict[str, Split], dict[str, Any]]:
    data = make("data/csv", **arguments)
    return data.load(seed), data.facts


def message(**arguments: Any) -> str:
    with pytest.raises(RunError) as caught:
        load(**arguments)
    return str(caught.value)


def test_text_targets_become_classes_in_alphabetical_order(table: str) -> None:
    splits, facts = load(path=table, target="species", features=["length", "width"])
    assert {name: len(split) for name, split in splits.items()} == {"train": 70, "val": 10, "test": 20}
    assert facts["class_names"] == ["iris", "rose", "tulip"]
    assert facts["num_classes"] == facts["num_outputs"] == 3
    assert facts["input_shape"] == [2] and facts["feature_names"] == ["length", "width"]
    assert splits["train"].tensors["y"].dtype == torch.int64


def test_features_have_mean_0_and_deviation_1_over_the_training_rows_only(table: str) -> None:
    splits, _ = load(path=table, target="species", features=["width"])
    x = splits["train"].tensors["x"]
    assert x.dtype == torch.float32
    assert abs(float(x.mean())) < 1e-6 and abs(float(x.std(correction=0)) - 1) < 1e-6
    raw, _ = load(path=table, target="species", features=["width"], standardize=False)
    train = raw["train"].tensors["x"].double()
    expected = (raw["test"].tensors["x"].double() - train.mean()) / train.std(correction=0)
    torch.testing.assert_close(splits["test"].tensors["x"].double(), expected, rtol=1e-5, atol=1e-6)


def test_rows_keep_their_target_and_fall_into_one_split_each(table: str) -> None:
    splits, _ = load(path=table, target="species", features=["width"], standardize=False)
    seen = torch.cat([split.tensors["x"][:, 0] for split in splits.values()])
    assert sorted(seen.tolist()) == list(range(100))
    for split in splits.values():  # row i has species i % 3
        assert torch.equal(split.tensors["x"][:, 0].long() % 3, split.tensors["y"])


def test_one_hot_turns_a_text_column_into_one_feature_a_word(table: str) -> None:
    splits, facts = load(path=table, target="species", features=["width", "colour"], one_hot=True, standardize=False)
    assert facts["feature_names"] == ["width", "colour=blue", "colour=red"]
    x = splits["val"].tensors["x"]
    assert torch.equal(x[:, 2], (x[:, 0] % 2 == 0).float()) and torch.equal(x[:, 1] + x[:, 2], torch.ones(10))


def test_several_targets_make_a_regression(table: str) -> None:
    splits, facts = load(path=table, target=["length", "width"], features=["colour"], one_hot=True)
    assert facts["num_outputs"] == 2 and "num_classes" not in facts
    assert splits["train"].tensors["y"].shape == (70, 2) and splits["train"].tensors["y"].dtype == torch.float32


def test_whole_numbers_are_classes_unless_asked_otherwise(tmp_path: Path) -> None:
    path = write(tmp_path / "n.csv", [f"{i / 2},{3 + 7 * (i % 2)}" for i in range(20)], "x,y")
    assert load(path=path, target="y")[1]["class_names"] == ["3", "10"]
    splits, facts = load(path=path, target="y", target_type="number")
    assert "num_classes" not in facts and set(splits["train"].tensors["y"].flatten().tolist()) == {3.0, 10.0}


def test_own_files_for_val_and_test_are_used_whole(tmp_path: Path, table: str) -> None:
    other = write(tmp_path / "other.csv", flowers(9))
    splits, _ = load(path=table, target="species", features=["width"], val=other, test=0.5)
    assert {name: len(split) for name, split in splits.items()} == {"train": 50, "val": 9, "test": 50}


def test_split_seed_keeps_the_splits_while_the_seed_varies(table: str) -> None:
    arguments: dict[str, Any] = {"path": table, "target": "species", "features": ["width"]}
    first, second = (load(seed, split_seed=5, **arguments)[0]["test"].tensors["x"] for seed in (0, 1))
    moving = load(1, **arguments)[0]["test"].tensors["x"]
    assert torch.equal(first, second) and not torch.equal(first, moving)


def test_another_separator_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "semicolon.csv"
    path.write_bytes("\ufeffx;y\n".encode() + b"".join(b"%d;%d\n" % (i, i % 2) for i in range(20)))
    assert load(path=str(path), target="y", separator=";")[1]["feature_names"] == ["x"]


def test_a_missing_value_is_told_with_row_and_column(tmp_path: Path) -> None:
    rows = flowers(30)
    rows[16] = ",16,red,rose"
    rows[20] = "1.0,20,red,"
    path = write(tmp_path / "gaps.csv", rows)
    text = message(path=path, target="species", features=["length"])
    assert f"{path}: row 17, column `length` has no value (1 such here)" in text
    assert "data.missing: drop" in text
    assert "row 21, column `species` has no value" in message(path=path, target="species", features=["width"])
    splits, facts = load(path=path, target="species", features=["length", "width"], missing="drop")
    assert sum(len(split) for split in splits.values()) == 28 and facts["class_names"] == ["iris", "rose", "tulip"]


def test_dropping_rows_keeps_whole_numbers_classes(tmp_path: Path) -> None:
    path = write(tmp_path / "n.csv", [f"{i / 2},{'' if i == 3 else i % 2}" for i in range(20)], "x,y")
    assert load(path=path, target="y", missing="drop")[1]["class_names"] == ["0", "1"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("inf,1,red,iris", "row 31, column `length` is infinite"),
        ("long,1,red,iris", "row 31, column `length` holds the text `long`, but features must be numbers"),
        ("1,2", "Expected 4 columns, got 2"),
        ("1,2,red,iris,5", "Expected 4 columns, got 5"),
    ],
)
def test_an_unusable_row_is_named(tmp_path: Path, row: str, words: str) -> None:
    path = write(tmp_path / "bad.csv", [*flowers(30), row])
    assert words in message(path=path, target="species", features=["length", "width"])


def test_unknown_columns_and_files_are_told_with_what_there_is(tmp_path: Path, table: str) -> None:
    text = message(path=table, target="kind")
    assert "has no column `kind`" in text and "its columns: length, width, colour, species" in text
    assert "has no column `depth`" in message(path=table, target="species", features=["depth"])
    assert "must be different columns" in message(path=table, target="species", features=["species"])
    assert "no such file or folder" in message(path=str(tmp_path / "none.csv"), target="y")
    (tmp_path / "empty").mkdir()
    assert "no file in this folder ends in .csv" in message(path=str(tmp_path / "empty"), target="y")


def test_text_where_a_number_is_the_target_is_refused(table: str) -> None:
    text = message(path=table, target="species", features=["width"], target_type="number", val=0, test=0)
    assert "row 1, target `species` holds the text `iris`, not a number" in text


def test_shares_that_leave_nothing_are_refused(table: str) -> None:
    with pytest.raises(ValueError, match=r"^val: val and test are shares"):
        make("data/csv", path=table, target="species", val=0.5, test=0.5)
    with pytest.raises(ValueError, match=r"^target: classes come from one column"):
        make("data/csv", path=table, target=["a", "b"], target_type="class")


def test_files_beyond_the_limit_are_streamed_and_give_the_same_examples(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    rows = flowers(90)
    for part in range(9):
        write(folder / f"part{part}.csv", rows[part * 10 : part * 10 + 10])
    arguments: dict[str, Any] = {"path": str(folder), "target": "species", "features": ["width", "colour"]}
    splits, facts = load(**arguments, one_hot=True, standardize=False, memory_limit_mb=1e-6)
    assert all(isinstance(split, StreamSplit) for split in splits.values())
    assert {name: len(split) for name, split in splits.items()} == {"train": 60, "val": 10, "test": 20}
    batches = [batch for split in splits.values() for batch in in_order(split, 7, torch.device("cpu"))]
    x, y = torch.cat([batch["x"] for batch in batches]), torch.cat([batch["y"] for batch in batches])
    assert sorted(x[:, 0].tolist()) == list(range(90))
    assert torch.equal(x[:, 0].long() % 3, y) and torch.equal(x[:, 2], (x[:, 0] % 2 == 0).float())
    whole, whole_facts = load(**arguments, one_hot=True, standardize=False)
    assert facts == whole_facts and len(whole["train"]) == 63


def test_streamed_statistics_equal_those_in_memory(tmp_path: Path, table: str) -> None:
    arguments: dict[str, Any] = {
        "path": table,
        "target": "species",
        "features": ["length", "width"],
        "val": 0,
        "test": 0,
    }
    streamed = load(**arguments, memory_limit_mb=1e-6)[0]["train"]
    batch = next(iter(in_order(streamed, 100, torch.device("cpu"))))
    torch.testing.assert_close(batch["x"], load(**arguments)[0]["train"].tensors["x"], rtol=1e-6, atol=1e-6)


def test_what_streaming_cannot_do_is_said(table: str) -> None:
    arguments: dict[str, Any] = {"path": table, "target": "species", "features": ["width"], "memory_limit_mb": 1e-6}
    assert "too few files to give `val` whole ones" in message(**arguments)
    assert "missing: drop works in memory only" in message(**arguments, missing="drop")
    semicolons = Path(table).with_name("semicolons.csv")
    semicolons.write_text(Path(table).read_text().replace(",", ";"))
    assert "only commas can separate" in message(**{**arguments, "path": str(semicolons)}, separator=";")
