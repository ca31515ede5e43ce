"""Classes and words are spelled alike wherever they stand; what is too many, too large or constant is told."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from raycipe.components.data._splits import standardizer
from raycipe.components.data._words import as_number, spelled
from raycipe.framework.contracts import Split
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make
from raycipe.framework.training.feed import in_order

both_ways = pytest.mark.parametrize("memory", [{}, {"memory_limit_mb": 1e-9}])


def load(path: Path, text: str | None = None, **arguments: Any) -> Any:
    """The loaded component; `text` is written to the file first."""
    if text is not None:
        path.write_text(text)
    data = make("data/csv", path=str(path), **{"target": "y", **arguments})
    data.splits = data.load(0)
    return data


def refused(path: Path, text: str | None = None, **arguments: Any) -> str:
    with pytest.raises(RunError) as caught:
        load(path, text, **arguments)
    return str(caught.value)


def whole(split: Split) -> dict[str, torch.Tensor]:
    batches = list(in_order(split, 1000, torch.device("cpu")))
    return {key: torch.cat([batch[key] for batch in batches]) for key in ("x", "y")}


def parts(tmp_path: Path, *files: str) -> dict[str, Any]:
    """The first file is for training, the second one for val."""
    for number, text in enumerate(files):
        (tmp_path / f"{number}.csv").write_text(text)
    return {"path": tmp_path / "0.csv", "val": str(tmp_path / "1.csv"), "test": 0}


def test_a_value_is_spelled_by_itself_not_by_its_neighbours() -> None:
    assert spelled(np.array([-0.0, 1.0, 2.5, 1e19, 1e300])).tolist() == ["0", "1", "2.5", "1" + "0" * 19, "1e+300"]
    assert spelled(np.array([10**19], dtype=np.uint64)).tolist() == spelled(np.array([1e19])).tolist()
    assert spelled(np.array([0.1, 3], dtype=np.float32)).tolist() == ["0.1", "3"]
    assert spelled(np.array([True, False])).tolist() == ["1", "0"]
    mixed = np.array(["a", 1, 2.0, True, decimal.Decimal("3.50")], dtype=object)
    assert spelled(mixed).tolist() == ["a", "1", "2", "1", "3.5"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("7.50", "7.5"), ("007", "7"), (" 9 ", "9"), ("-0.0", "0"), ("True", "1"), ("1e2", "100"), ("1_0", "1_0"),
     ("nan", "nan"), ("9" * 30, "1e+30"), ("red", "red")],
)  # fmt: skip
def test_text_that_is_a_number_is_spelled_as_the_number(text: str, number: str) -> None:
    assert as_number(text) == number


@both_ways
def test_classes_written_as_decimals_are_the_same_in_every_split(tmp_path: Path, memory: dict[str, Any]) -> None:
    train = "x,y\n" + "".join(f"{i},{i % 5}.0\n" for i in range(50)) + "50,2.5\n"
    arguments = parts(tmp_path, train, "x,y\n1,1\n2,2\n0,-0.0\n", "")
    data = load(**arguments, target_type="class", **memory)
    assert data.facts["class_names"] == ["0", "1", "2", "2.5", "3", "4"]
    assert whole(data.splits["val"])["y"].tolist() == [1, 2, 0]
    assert whole(data.splits["train"])["y"].tolist() == [[0, 1, 2, 4, 5][i % 5] for i in range(50)] + [3]


def test_large_numbers_are_classes_of_their_own(tmp_path: Path) -> None:
    text = "x,y\n" + "".join(f"{i},{['1e19', '-1e19', '2e300'][i % 3]}\n" for i in range(30))
    names = load(tmp_path / "t.csv", text, target_type="class").facts["class_names"]
    assert names == ["-1" + "0" * 19, "1" + "0" * 19, "2e+300"]


@both_ways
@pytest.mark.parametrize("order", [1, -1])
def test_words_are_found_where_a_file_holds_only_numbers(tmp_path: Path, memory: dict[str, Any], order: int) -> None:
    files = ["w,y\n" + "a,0\n7.50,1\n" * 9, "w,y\n9,0\n7.5,1\n"][::order]
    data = load(**parts(tmp_path, *files), one_hot=True, **memory)
    assert data.facts["feature_names"] == ["w=7.5", "w=9", "w=a"]
    x = [whole(data.splits[name])["x"][:2].tolist() for name in ("train", "val")][::order]
    assert x == [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [1, 0, 0]]]
    rows = data.features_of(pa.table({"w": [9.0, 7.5]}))
    assert rows.tolist() == [[0, 1, 0], [1, 0, 0]]
    with pytest.raises(RunError, match="column `w` holds `8`, which no row of the training data had"):
        data.features_of(pa.table({"w": [8]}))


@both_ways
def test_a_text_class_is_found_where_a_file_holds_only_numbers(tmp_path: Path, memory: dict[str, Any]) -> None:
    data = load(**parts(tmp_path, "x,y\n" + "1,a\n2,7.5\n" * 9, "x,y\n1,9.5\n2,7.5\n"), **memory)
    assert data.facts["class_names"] == ["7.5", "9.5", "a"]
    assert whole(data.splits["val"])["y"].tolist() == [1, 0]


@both_ways
def test_a_constant_column_stays_constant(tmp_path: Path, memory: dict[str, Any]) -> None:
    train = "c,d,y\n" + "".join(f"0.1,{i},{i % 2}\n" for i in range(37))
    data = load(**parts(tmp_path, train, "c,d,y\n0.1,1,0\n0.2,1,1\n"), **memory)
    x = whole(data.splits["train"])["x"]
    assert float(x[:, 0].abs().max()) < 1e-6 and abs(float(x[:, 1].std(correction=0)) - 1) < 1e-6
    torch.testing.assert_close(whole(data.splits["val"])["x"][:, 0], torch.tensor([0.0, 0.1]))


def test_the_standardizer_tells_a_constant_from_a_narrow_column() -> None:
    narrow = 1e6 + 1e-6 * np.arange(37)
    _, std = standardizer(np.stack([np.full(37, 0.1), narrow, np.zeros(37)], axis=1))
    assert std[0] == 1 and std[2] == 1 and std[1] == pytest.approx(1e-6 * np.arange(37).std(), rel=1e-3)


@both_ways
def test_a_number_beyond_float32_is_told_with_value_row_and_column(tmp_path: Path, memory: dict[str, Any]) -> None:
    arguments = parts(tmp_path, "x,y\n" + "1.5,0\n2,1\n" * 9, "x,y\n1,0\n-1e300,1\n", "")
    text = refused(**arguments, **memory)
    assert "1.csv: row 2, column `x` holds -1e+300, which float32 cannot hold (3.4e38 at most) (1 such here)" in text
    assert text.endswith("correct the file, or leave the column out with data.drop: [x]")
    arguments = parts(tmp_path, "x,y\n" + "1,0.5\n2,1e300\n" * 9, "x,y\n1,0\n")
    assert "row 2, column `y` holds 1e+300, which float32" in refused(**arguments, **memory)
    data = load(tmp_path / "t.csv", "x,y\n" + "1.5,0\n2,1\n" * 9)
    with pytest.raises(RunError, match=r"column `x` holds 1e\+300, which float32 cannot hold"):
        data.features_of(pa.table({"x": [1e300]}))


def test_too_many_classes_are_refused_unless_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    text = refused(path, "x,y\n" + "".join(f"{i},{i}\n" for i in range(300)))
    assert "the target `y` holds 300 distinct values in 300 rows, too many to take each as a class unasked" in text
    assert "set data.target_type: number to predict it as measured, set data.target_type: class if" in text
    assert load(path, target_type="class").facts["note"] == "1 feature, 300 classes in 300 rows"
    assert "num_classes" not in load(path, target_type="number").facts
    text = refused(path, "x,y\n" + "".join(f"{i},id{i}\n" for i in range(300)))
    assert "300 distinct values" in text and "target_type: number" not in text
    fifty = load(path, "x,y\n" + "".join(f"{i},{i % 50}\n" for i in range(60)))
    assert fifty.facts["num_classes"] == 50 and fifty.facts["note"] == "1 feature"


def test_parquet_files_of_two_float_types_share_their_classes(tmp_path: Path) -> None:
    for name, type_, count in (("train", np.float64, 20), ("val", np.float32, 4)):
        labels = np.array([0.1, 2], dtype=type_)[np.arange(count) % 2]
        parquet.write_table(pa.table({"x": np.arange(count), "y": labels}), tmp_path / f"{name}.parquet")
    arguments: dict[str, Any] = {"target": "y", "target_type": "class", "val": str(tmp_path / "val.parquet"), "test": 0}
    data = make("data/parquet", path=str(tmp_path / "train.parquet"), **arguments)
    splits = data.load(0)
    assert data.facts["class_names"] == ["0.1", "2"] and splits["val"].tensors["y"].tolist() == [0, 1, 0, 1]
