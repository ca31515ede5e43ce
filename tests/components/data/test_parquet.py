"""The user's own parquet files."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from raycipe.framework.contracts import StreamSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make
from raycipe.framework.training.feed import in_order


def write(path: Path, count: int, first: int = 0) -> str:
    numbers = np.arange(first, first + count)
    table = pa.table(
        {
            "a": numbers.astype(np.float64),
            "flag": numbers % 2 == 0,
            "kind": pa.array([["x", "y", "z"][n % 3] for n in numbers]).dictionary_encode(),
            "price": pa.array([n * 2 for n in numbers.tolist()], pa.decimal128(10, 2)),
        }
    )
    parquet.write_table(table, path, row_group_size=7)
    return str(path)


def test_dictionaries_booleans_and_decimals_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", 40)
    data = make("data/parquet", path=path, target="kind", standardize=False)
    x = data.load(0)["train"].tensors["x"]
    assert data.facts["feature_names"] == ["a", "flag", "price"] and data.facts["class_names"] == ["x", "y", "z"]
    assert torch.equal(x[:, 1], (x[:, 0] % 2 == 0).float()) and torch.equal(x[:, 2], 2 * x[:, 0])


def test_files_beyond_the_limit_are_streamed_and_give_the_same_examples(tmp_path: Path) -> None:
    for part in range(4):
        write(tmp_path / f"{part}.parquet", 25, 25 * part)
    data = make("data/parquet", path=str(tmp_path), target="flag", memory_limit_mb=1e-6, standardize=False, val=0,
                features=["a", "price"])  # fmt: skip
    splits = data.load(0)
    assert all(isinstance(split, StreamSplit) for split in splits.values())
    assert {name: len(split) for name, split in splits.items()} == {"train": 75, "test": 25}
    batches = [batch for split in splits.values() for batch in in_order(split, 16, torch.device("cpu"))]
    x, y = torch.cat([batch["x"] for batch in batches]), torch.cat([batch["y"] for batch in batches])
    assert sorted(x[:, 0].tolist()) == list(range(100)) and torch.equal(y, (x[:, 0] % 2 == 0).long())


def test_a_nan_is_a_missing_value_and_told_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "nan.parquet"
    values = np.arange(20.0)
    values[8] = np.nan
    parquet.write_table(pa.table({"a": values, "y": values > 3}), path)
    with pytest.raises(RunError, match="row 9, column `a` has no value"):
        make("data/parquet", path=str(path), target="y").load(0)
    kept = make("data/parquet", path=str(path), target="y", missing="drop").load(0)
    assert sum(len(split) for split in kept.values()) == 19


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "no.parquet"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(RunError, match=r"no\.parquet: .*[Pp]arquet"):
        make("data/parquet", path=str(path), target="b").load(0)


@pytest.mark.parametrize(
    ("column", "held"),
    [
        (np.arange(20).astype("datetime64[D]"), "dates"),
        (np.arange(20).astype("datetime64[ms]"), "dates"),
        (pa.array([date(2020, 1, 1)] * 20).dictionary_encode(), "dates"),
        (np.arange(20).astype("timedelta64[s]"), "times"),
        (pa.array([{"inner": 1}] * 20), "values of the type struct<inner: int64>"),
        (pa.array([[1, 2]] * 20), "values of the type list<element: int64>"),
        (pa.array([b"x"] * 20), "values of the type binary"),
    ],
)
@pytest.mark.parametrize("memory", [{}, {"memory_limit_mb": 1e-6, "val": 0, "test": 0}])
def test_what_is_neither_number_nor_text_is_refused_in_words(
    tmp_path: Path, column: Any, held: str, memory: dict[str, Any]
) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"odd": column, "x": np.arange(20.0), "y": np.arange(20) % 2}), path)
    with pytest.raises(RunError) as caught:
        make("data/parquet", path=str(path), target="y", **memory).load(0)
    assert f"column `odd` holds {held}, which are neither numbers nor text" in str(caught.value)
    assert "or leave the column out with data.drop: [odd]" in str(caught.value)
    data = make("data/parquet", path=str(path), target="y", drop=["odd"], **memory)
    data.load(0)
    assert data.facts["feature_names"] == ["x"]


def test_a_refused_target_is_not_to_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"x": np.arange(20.0), "y": np.arange(20).astype("datetime64[D]")}), path)
    with pytest.raises(RunError, match=r"or choose another data\.target"):
        make("data/parquet", path=str(path), target="y").load(0)


def test_an_empty_column_and_a_saved_row_number_are_told(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    rows = np.arange(20)
    parquet.write_table(pa.table({"gone": pa.nulls(20), "y": rows % 2, "__index_level_0__": rows}), path)
    with pytest.raises(RunError, match=r"column `gone` is empty\n    leave the column out with data\.drop: \[gone\]"):
        make("data/parquet", path=str(path), target="y", drop=["__index_level_0__"], missing="drop").load(0)
    with pytest.raises(RunError, match=r"column 3 \(`__index_level_0__`\) has no name of its own"):
        make("data/parquet", path=str(path), target="y", drop=["gone"]).load(0)


def test_a_column_that_stands_twice_is_refused_unless_it_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    column = pa.array(np.arange(20) % 2)
    parquet.write_table(pa.Table.from_arrays([column] * 4, names=["a", "a", "b", "y"]), path)
    with pytest.raises(RunError, match=r"column `a` stands twice in "):
        make("data/parquet", path=str(path), target="y").load(0)
    data = make("data/parquet", path=str(path), target="y", drop=["a"])
    data.load(0)
    assert data.facts["feature_names"] == ["b"]


def test_names_with_points_are_columns_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    rows = np.arange(20)
    parquet.write_table(pa.table({"a.b": rows * 1.0, "a": rows * 2.0, "y": rows % 2}), path)
    data = make("data/parquet", path=str(path), target="y", features=["a", "a.b"], standardize=False)
    x = data.load(0)["train"].tensors["x"]
    assert torch.equal(x[:, 0], 2 * x[:, 1])
