"""Shared by the table components: files of rows, in memory or streamed, to splits and facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from raycipe.components.data._encoder import Chunk, Columns, Encoder
from raycipe.components.data._splits import classification_facts, regression_facts, shuffled_rows
from raycipe.framework.contracts import Split, StreamSplit, TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.streams import numpy_generator

Format = Literal["csv", "parquet"]
Part = float | str  # a share of the rows, or a file of its own
Rows = tuple[Columns, list[tuple[str, int]]]  # columns, and (file, row) of each row


@dataclass(frozen=True)
class Table:
    """The arguments of a table component; see the components for their meaning."""

    format: Format
    path: str
    target: list[str]
    features: list[str] | None
    target_type: str
    one_hot: bool
    missing: str
    standardize: bool
    val: Part
    test: Part
    split_seed: int | None
    memory_limit_mb: float
    separator: str = ","

    def load(self, seed: int) -> tuple[dict[str, Split], dict[str, Any]]:
        """Splits and facts. Raises RunError naming file, row and column of what can't be used."""
        files = {"train": list_files(self.path, self.format, "data.path")}
        for name, part in (("val", self.val), ("test", self.test)):
            if isinstance(part, str):
                files[name] = list_files(part, self.format, f"data.{name}")
        names = self._features(files["train"][0])
        classes = {"auto": None, "class": True, "number": False}[self.target_type]
        encoder = Encoder(names, self.target, classes, self.one_hot, self.standardize)
        split_seed = seed if self.split_seed is None else self.split_seed
        sizes = [Path(file).stat().st_size for group in files.values() for file in group]
        streamed = sum(sizes) > self.memory_limit_mb * 1e6
        splits = self._stream(files, encoder, split_seed) if streamed else self._in_memory(files, encoder, split_seed)
        if encoder.classes:
            facts = classification_facts([len(encoder.feature_names)], encoder.class_names)
        else:
            facts = regression_facts([len(encoder.feature_names)], len(self.target))
        return splits, {**facts, "feature_names": encoder.feature_names}

    def _features(self, file: str) -> list[str]:
        """The columns to read as x: those asked for, else all but the target. Raises RunError for an unknown one."""
        known = column_names(file, self.format, self.separator)
        for where, names in (("data.target", self.target), ("data.features", self.features or [])):
            for name in names:
                if name not in known:
                    shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
                    raise RunError("data", f"{file}: has no column `{name}`", f"its columns: {shown}", where=where)
        names = self.features or [name for name in known if name not in self.target]
        if not names or set(names) & set(self.target):
            message = f"{file}: the features and the target must be different columns, at least one each"
            raise RunError("data", message, where="data.features")
        return names

    # ------------------------------------------------------------------------------------------ in memory

    def _in_memory(self, files: dict[str, list[str]], encoder: Encoder, seed: int) -> dict[str, Split]:
        frames = {name: self._read(group, [*encoder.features, *self.target]) for name, group in files.items()}
        shares = {name: part for name, part in (("val", self.val), ("test", self.test)) if not isinstance(part, str)}
        whole = frames.pop("train")
        rows = shuffled_rows(len(whole[1]), shares.get("val", 0.0), shares.get("test", 0.0), seed)
        parts = {name: _take(whole, index) for name, index in rows.items()}
        parts.update(frames)
        encoder.fit(Chunk(part[0], name == "train", part[1].__getitem__) for name, part in parts.items())
        return {name: TensorSplit(encoder(parts[name][0])) for name in ("train", "val", "test") if name in parts}

    def _read(self, files: list[str], names: list[str]) -> Rows:
        """The columns of all files together, and the place of every row."""
        parts, origins = [], []
        for file in files:
            table = read_table(file, self.format, self.separator, names)
            rows = np.arange(table.num_rows)
            if self.missing == "drop":
                rows = complete_rows(table)
                table = table.take(rows)
            parts.append(to_columns(table, names))
            origins += [(file, int(row) + 1) for row in rows]
        if not origins:
            raise RunError("data", f"{', '.join(files[:3])}: no rows", where="data.path")
        return {name: np.concatenate([part[name] for part in parts]) for name in names}, origins

    # ------------------------------------------------------------------------------------------ streamed

    def _stream(self, files: dict[str, list[str]], encoder: Encoder, seed: int) -> dict[str, Split]:
        if self.missing == "drop":
            hint = "remove such rows from the files, or raise data.memory_limit_mb"
            raise RunError("data", "missing: drop works in memory only", hint, where="data.missing")
        if self.separator != ",":
            hint = "convert the files to parquet, or raise data.memory_limit_mb"
            raise RunError("data", "only commas can separate the columns of streamed files", hint, "data.separator")
        groups = self._deal(files, seed)
        names = [*encoder.features, *self.target]
        rows: dict[str, int] = {}
        encoder.fit(self._chunks(groups, names, rows))
        return {
            name: StreamSplit(group, [rows[file] for file in group], self.format, names, encoder)
            for name, group in groups.items()
        }

    def _deal(self, files: dict[str, list[str]], seed: int) -> dict[str, list[str]]:
        """Files per split: rows of streamed files are not mixed, so a share goes to whole files, drawn by the seed."""
        groups = {name: group for name, group in files.items() if name != "train"}
        left = [files["train"][i] for i in numpy_generator(seed, "split").permutation(len(files["train"]))]
        for name, part in (("val", self.val), ("test", self.test)):
            if isinstance(part, str) or not part:
                continue
            count = max(1, round(part * len(files["train"])))
            groups[name], left = sorted(left[:count]), left[count:]
            if not left:
                raise RunError(
                    "data",
                    f"{self.path}: larger than memory_limit_mb, and too few files to give `{name}` whole ones",
                    f"bring more files, give data.{name} a file of its own or 0, or raise data.memory_limit_mb",
                    where=f"data.{name}",
                )
        return {"train": sorted(left), **groups}

    def _chunks(self, groups: dict[str, list[str]], names: list[str], rows: dict[str, int]) -> Iterator[Chunk]:
        for split, group in groups.items():
            for file in group:
                rows[file] = 0
                for columns in read_batches(file, self.format, names):
                    yield Chunk(columns, split == "train", _counter(file, rows[file] + 1))
                    rows[file] += len(columns[names[0]])


def _counter(file: str, first: int) -> Callable[[int], tuple[str, int]]:
    """Tells file and row of the i-th row after `first`."""
    return lambda i: (file, first + i)


def _take(part: Rows, index: np.ndarray) -> Rows:
    columns, origins = part
    return {name: values[index] for name, values in columns.items()}, [origins[i] for i in index.tolist()]


def list_files(path: str, format: Format, where: str) -> list[str]:
    """The file, or the files of a folder with the format's suffix in the order of their names."""
    there = Path(path)
    if there.is_file():
        return [path]
    suffix = f".{format}"
    if there.is_dir():
        files = sorted(str(file) for file in there.iterdir() if file.suffix == suffix)
        if files:
            return files
        raise RunError("data", f"{path}: no file in this folder ends in {suffix}", where=where)
    raise RunError("data", f"{path}: no such file or folder", "a path is relative to the recipe's file", where=where)


def column_names(file: str, format: Format, separator: str) -> list[str]:
    with reading(file):
        if format == "parquet":
            from pyarrow import parquet

            return list(parquet.read_schema(file).names)
        with open_csv(file, None, separator) as opened:
            return list(opened.schema.names)


def read_table(file: str, format: Format, separator: str, names: list[str]) -> Any:
    """A pyarrow table of the named columns; a column's type is inferred from all of its rows."""
    with reading(file):
        if format == "parquet":
            from pyarrow import parquet

            return parquet.read_table(file, columns=names)
        with open_csv(file, names, separator, block_size=Path(file).stat().st_size + 1) as opened:
            return opened.read_all()


def read_batches(file: str, format: Format, names: list[str]) -> Iterator[Columns]:
    """The named columns in pieces, typed as the streaming reader will type them."""
    with reading(file):
        if format == "parquet":
            from pyarrow import parquet

            with parquet.ParquetFile(file) as opened:
                yield from (to_columns(batch, names) for batch in opened.iter_batches(columns=names))
        else:
            with open_csv(file, names, ",") as opened:
                yield from (to_columns(batch, names) for batch in opened)


def open_csv(file: str, names: list[str] | None, separator: str, block_size: int | None = None) -> Any:
    """pyarrow's reader; empty cells and `NA` are missing in text columns too."""
    from pyarrow import csv

    return csv.open_csv(
        file,
        read_options=csv.ReadOptions(block_size=block_size),
        parse_options=csv.ParseOptions(delimiter=separator),
        convert_options=csv.ConvertOptions(include_columns=names, strings_can_be_null=True),
    )


def complete_rows(table: Any) -> np.ndarray:
    """Numbers of the rows without a missing value (NaN counts as missing)."""
    missing = np.zeros(table.num_rows, dtype=bool)
    for column in table.columns:
        missing |= column.is_null(nan_is_null=True).to_numpy()
    return np.flatnonzero(~missing)


def to_columns(table: Any, names: list[str]) -> Columns:
    return {name: _to_numpy(table.column(name)) for name in names}


def _to_numpy(column: Any) -> np.ndarray:
    from pyarrow import types

    if types.is_decimal(column.type):
        column = column.cast("float64")
    elif types.is_boolean(column.type):
        column = column.cast("uint8")  # with a null it would become Python objects
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False)


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Turns what pyarrow says of a malformed file into a RunError that names the file."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:  # pyarrow's errors derive from these
        said = " ".join(str(error).split())
        raise RunError("data", f"{file}: {said}", "is it complete, and of this format?", where="data.path") from error
