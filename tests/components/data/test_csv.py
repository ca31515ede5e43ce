"""The user's own CSV files: splits, types, and what is said of an unusable cell."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import raycipe.framework
from raycipe.framework.contracts import Split, StreamSplit
from raycipe.framework.errors import RecipeError, RunError
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
        ("1,2", "line 32 (row 31): 2 cells, where the header has 4"),
        ("1,2,red,iris,5", "line 32 (row 31): 5 cells, where the header has 4"),
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


STREAMED: dict[str, Any] = {"memory_limit_mb": 1e-9, "val": 0, "test": 0}
both_ways = pytest.mark.parametrize("memory", [{}, STREAMED])


def raw(tmp_path: Path, content: str | bytes) -> str:
    path = tmp_path / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def rows(line: str, count: int = 20) -> str:
    """`count` lines; {i} is the row's number from 0, {y} its parity."""
    return "".join(line.format(i=i, y=i % 2) + "\n" for i in range(count))


@both_ways
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty\n    the first line names the columns"),
        ("\n\n", "is empty"),
        ("x,y\n", "no rows"),
        (("café,y\n" + rows("{i},{y}")).encode("latin-1"), "the header is not UTF-8\n    save the file as UTF-8"),
        (("x,y\n" + rows("{i},{y}")).encode("utf-16"), "is UTF-16, not UTF-8\n    save the file as UTF-8"),
        (b"PK\x03\x04\0\0" * 9, "is not a text file\n    save the table as CSV"),
        ("petal,petal,y\n" + rows("{i},{i},{y}"), "column `petal` stands twice in"),
        ("petal,petal,petal,y\n" + rows("{i},{i},{i},{y}"), "column `petal` stands 3 times in"),
        ("x;y\n" + rows("1,{i};{y}"), 'is `separator: ";"` meant?\n    its header is `x;y`'),
        ("x\ty\n" + rows("{i}\t{y}"), 'is `separator: "\\t"` meant?'),
        ("y\n" + rows("{y}"), "no column is left for the features"),
        (",x,y\n" + rows("{i},{i},{y}"), "column 1 (``) has no name of its own\n    row numbers are often saved so"),
        ("x,y\n" + rows("{i},a"), "the target `y` is `a` in every row: there is nothing to tell apart"),
    ],
)
def test_an_unusable_file_is_told(tmp_path: Path, content: str | bytes, words: str, memory: dict[str, Any]) -> None:
    assert words in message(path=raw(tmp_path, content), target="y", **memory)


@both_ways
def test_a_cell_that_is_not_utf8_is_told_with_row_and_column(tmp_path: Path, memory: dict[str, Any]) -> None:
    path = raw(tmp_path, ("city,x,y\nBern,1,0\nZürich,2,1\n" + rows("Bern,{i},{y}")).encode("latin-1"))
    text = message(path=path, target="y", one_hot=True, **memory)
    assert f"{path}: row 2, column `city` is not UTF-8\n    save the file as UTF-8" in text
    assert text.endswith("or leave the column out with data.drop: [city]")
    assert load(path=path, target="y", drop=["city"], **memory)[1]["feature_names"] == ["x"]
    assert message(path=path, target="city", **memory).endswith("or choose another data.target")


def test_a_late_cell_that_is_not_utf8_or_of_another_type_is_told_when_streamed(tmp_path: Path) -> None:
    many = "x,n,y\n" + rows("{i},word,{y}", 100_000)
    text = message(path=raw(tmp_path, (many + "1,Zürich,0\n").encode("latin-1")), target="y", one_hot=True, **STREAMED)
    assert "row 100001: CSV conversion error" in text and "save the file as UTF-8" in text
    text = message(path=raw(tmp_path, many + "1.5,word,0\n"), target="y", one_hot=True, **STREAMED)
    assert "row 100001: CSV conversion error to int64: invalid value '1.5'" in text
    assert "streamed, a column has the type of its first rows" in text


@both_ways
@pytest.mark.parametrize(
    ("content", "features", "classes"),
    [
        ("\ufeffy,x\r\n" + rows("{y},{i}\r"), ["x"], ["0", "1"]),
        ("x,y\r\n" + rows("{i},c{y}\r"), ["x"], ["c0", "c1"]),
        ('"n\nm",y\n' + rows('"{i}",{y}'), ["n\nm"], ["0", "1"]),
        ("x,y\n" + rows("{i},{y}\n"), ["x"], ["0", "1"]),
        ("größe,名前,y\n" + rows("{i},日{y},é{y}"), ["größe", "名前=日0", "名前=日1"], ["é0", "é1"]),
        ("answer,y\nyes,True\nno,False\n" + rows("yes,True"), ["answer=no", "answer=yes"], ["0", "1"]),
    ],
)
def test_unusual_but_sound_files_are_read(
    tmp_path: Path, content: str, features: list[str], classes: list[str], memory: dict[str, Any]
) -> None:
    _, facts = load(path=raw(tmp_path, content), target="y", one_hot=True, **memory)
    assert facts["feature_names"] == features and facts["class_names"] == classes


def test_quoted_line_breaks_are_read_in_every_block(tmp_path: Path) -> None:
    path = raw(tmp_path, "n,y\n" + rows('"first\nsecond",{y}', 100_000))  # blocks have a megabyte
    (split,) = load(path=path, target="y", one_hot=True, **STREAMED)[0].values()
    assert sum(len(batch["y"]) for batch in in_order(split, 5000, torch.device("cpu"))) == 100_000


def test_a_table_of_5000_columns_is_read(tmp_path: Path) -> None:
    names = [f"c{j}" for j in range(5000)]
    lines = [",".join([*(str(i + j) for j in range(5000)), str(i % 2)]) for i in range(6)]
    path = raw(tmp_path, "\n".join([",".join([*names, "y"]), *lines]))
    assert load(path=path, target="y")[1]["feature_names"] == names
    assert "its columns: c0, c1" in message(path=path, target="z") and "and 4989 more" in message(path=path, target="z")


@both_ways
def test_dates_and_times_are_refused_in_words(tmp_path: Path, memory: dict[str, Any]) -> None:
    for cell, held in (("2020-01-02", "dates"), ("2020-01-02 10:00:00", "dates"), ("10:20", "times")):
        text = message(path=raw(tmp_path, "day,x,y\n" + rows(cell + ",{i},{y}")), target="y", one_hot=True, **memory)
        assert f"column `day` holds {held}, which are neither numbers nor text" in text
        assert "leave the column out with data.drop: [day]" in text


@both_ways
def test_numbers_with_a_comma_are_refused_as_number_word_and_class(tmp_path: Path, memory: dict[str, Any]) -> None:
    path = raw(tmp_path, "price,x,y\n" + rows('"1,{i}00",{i},{y}'))
    hint = "write numbers without thousands separators and with a decimal point"
    text = message(path=path, target="y", **memory)
    assert "row 1, column `price` holds the text `1,000`, a number with a comma" in text and hint in text
    text = message(path=path, target="y", one_hot=True, **memory)
    assert "column `price` holds numbers with a comma, such as `1,000`" in text and hint in text
    assert "column `price` holds numbers with a comma" in message(path=path, target="price", **memory)
    words = raw(tmp_path, "size,y\n" + rows('"small, {y}",{y}'))
    assert load(path=words, target="y", one_hot=True, **memory)[1]["num_features"] == 2


@both_ways
def test_an_id_column_is_refused_under_one_hot_and_can_be_dropped(tmp_path: Path, memory: dict[str, Any]) -> None:
    path = raw(tmp_path, "my id,x,y\n" + rows("id{i},{i},{y}", 60))
    text = message(path=path, target="y", one_hot=True, **memory)
    assert "column `my id` holds 60 distinct words in 60 rows, too many for data.one_hot" in text
    assert 'leave the column out with data.drop: ["my id"]' in text
    assert load(path=path, target="y", drop=["my id"], **memory)[1]["feature_names"] == ["x"]
    assert load(path=path, target="y", features=["my id", "x"], drop=["my id"], **memory)[1]["num_features"] == 1
    few = raw(tmp_path, "id,x,y\n" + rows("id{i},{i},{y}", 50))
    assert load(path=few, target="y", one_hot=True, **memory)[1]["num_features"] == 51


def test_more_words_than_50_are_features_in_a_long_table(tmp_path: Path) -> None:
    lines = "".join(f"w{i % 60},{i % 2}\n" for i in range(600))
    assert load(path=raw(tmp_path, "w,y\n" + lines), target="y", one_hot=True)[1]["num_features"] == 60


def test_what_cannot_be_dropped_or_chosen_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    path = raw(tmp_path, "amount, Kind\n" + rows("{i},{y}"))
    assert "did you mean ` Kind`?  its columns: amount,  Kind" in message(path=path, target="kind")
    assert "did you mean `amount`?" in message(path=path, target=" Kind", drop=["amuont"])
    assert "the target is not dropped" in message(path=path, target=" Kind", drop=[" Kind"])
    assert "no column is left for the features" in message(path=path, target=" Kind", drop=["amount"])
    assert "data.target names a column twice" in message(path=path, target=["amount", "amount"])


def test_a_column_that_a_later_file_lacks_is_told(tmp_path: Path, table: str) -> None:
    other = write(tmp_path / "other.csv", ["1,2"], "length,species")
    assert f"{other}: has no column `width`" in message(path=table, target="species", features=["width"], test=other)


@both_ways
def test_files_without_rows_do_not_change_the_types(tmp_path: Path, memory: dict[str, Any]) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder / "a.csv", [], "x,y")
    write(folder / "b.csv", [f"{i},{i % 2}" for i in range(20)], "x,y")
    (folder / "a.csv").write_text("x,y\n")
    splits, facts = load(path=str(folder), target="y", **memory)
    assert facts["class_names"] == ["0", "1"] and sum(len(split) for split in splits.values()) == 20


def test_an_infinite_cell_is_not_said_to_be_missing(tmp_path: Path) -> None:
    text = message(path=raw(tmp_path, "x,y\n" + rows("{i},{y}") + "inf,1\n"), target="y", val=0, test=0)
    assert "row 21, column `x` is infinite" in text and "data.missing" not in text
    assert text.endswith("correct the file, or leave the column out with data.drop: [x]")


def test_rows_that_are_all_incomplete_are_told(tmp_path: Path) -> None:
    path = raw(tmp_path, "a,b,y\n1,,0\n,1,1\n")
    assert "no rows without a missing value (of 2)" in message(path=path, target="y", missing="drop")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": "x"}, "the target column `x` holds measured numbers: use `task: regression`, or data.target_type:"),
        ({"target": "y", "target_type": "number"}, "data.target_type: number takes `y` as measured"),
        ({"target": ["x", "y"]}, "several targets are measured numbers: use `task: regression`, or name one target"),
    ],
)
def test_a_measured_target_is_explained_to_the_classification(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    path = raw(tmp_path, "x,y,z\n" + rows("{i}.5,{y},{i}"))
    with pytest.raises(RecipeError) as caught:
        make("tasks/classification", facts=load(path=path, **arguments)[1])
    assert words in str(caught.value) and "the data knows it" not in str(caught.value)


def test_the_note_counts_features_columns_and_dropped_rows(tmp_path: Path, table: str) -> None:
    assert load(path=table, target="species", features=["width"])[1]["note"] == "1 feature"
    assert load(path=table, target="species", one_hot=True)[1]["note"] == "4 features from 3 columns"
    gaps = write(tmp_path / "gaps.csv", [*flowers(30), ",1,red,iris", "1,,red,iris"])
    _, facts = load(path=gaps, target="species", drop=["colour"], missing="drop")
    assert facts["note"] == "2 features, 2 rows dropped"


def test_a_separator_is_one_character(table: str) -> None:
    schema = json.loads((Path(raycipe.framework.__path__[0]) / "schema.json").read_text())
    pattern = re.compile(schema["$defs"]["data/csv"]["properties"]["separator"]["pattern"])
    assert all(pattern.search(mark) for mark in ",;|\t :")
    assert not any(pattern.search(mark) for mark in ("", ";;", '"', "\n", "é"))
