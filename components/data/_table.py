"""Shared by the table components: files of rows, in memory or streamed, to splits and facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from raycipe.components.data._columns import Chunk
from raycipe.components.data._encoder import Encoder, too_many
from raycipe.components.data._files import (
    Columns,
    Format,
    column_names,
    complete_rows,
    leave_out,
    list_files,
    read_batches,
    read_table,
    to_columns,
)
from raycipe.components.data._splits import classification_facts, regression_facts, shuffled_rows
from raycipe.framework.contracts import Split, StreamSplit, TensorSplit
from raycipe.framework.errors import RunError, shown
from raycipe.framework.streams import numpy_generator
from raycipe.framework.words import listed, nearest

UNNAMED = ("", "Unnamed: 0", "__index_level_0__")  # as pandas saves row numbers
Part = float | str  # a share of the rows, or a file of its own


class Rows(NamedTuple):
    """Columns, the place (file, row) of each row, and how many rows were left out as incomplete."""

    columns: Columns
    origins: list[tuple[str, int]]
    dropped: int = 0


@dataclass(frozen=True)
class Table:
    """The arguments of a table component; see the components for their meaning."""

    format: Format
    path: str
    target: list[str]
    features: list[str] | None
    drop: list[str]
    target_type: str
    one_hot: bool
    missing: str
    standardize: bool
    val: Part
    test: Part
    split_seed: int | None
    memory_limit_mb: float
    separator: str = ","

    def load(self, seed: int) -> tuple[dict[str, Split], dict[str, Any], Encoder]:
        """Splits, facts, and what makes features of further rows.

        Raises RunError naming file, row and column of what can't be used.
        """
        files = {"train": list_files(self.path, self.format, "data.path")}
        for name, part in (("val", self.val), ("test", self.test)):
            if isinstance(part, str):
                files[name] = list_files(part, self.format, f"data.{name}")
        names = self._features([file for group in files.values() for file in group])
        classes = {"auto": None, "class": True, "number": False}[self.target_type]
        encoder = Encoder(names, self.target, classes, self.one_hot, self.standardize)
        split_seed = seed if self.split_seed is None else self.split_seed
        sizes = [Path(file).stat().st_size for group in files.values() for file in group]
        if sum(sizes) > self.memory_limit_mb * 1e6:
            splits, dropped = self._stream(files, encoder, split_seed), 0
        else:
            splits, dropped = self._in_memory(files, encoder, split_seed)
        return splits, self._facts(encoder, dropped), encoder

    def _facts(self, encoder: Encoder, dropped: int) -> dict[str, Any]:
        names, columns = encoder.feature_names, len(encoder.features)
        note = f"{len(names)} feature{'s' * (len(names) != 1)}"
        note += f" from {columns} column{'s' * (columns != 1)}" if len(names) != columns else ""
        note += f", {dropped} row{'s' * (dropped != 1)} dropped" if dropped else ""
        count = len(encoder.class_names)
        note += f", {count} classes in {encoder.rows} rows" if too_many(count, encoder.rows) else ""
        if encoder.classes:
            facts = classification_facts([len(names)], encoder.class_names)
        else:
            facts = regression_facts([len(names)], len(self.target), self._why_numbers())
        return {**facts, "feature_names": names, "note": note}

    def _why_numbers(self) -> str:
        """Why there are no classes, and what to do if there should be."""
        if len(self.target) > 1:
            return "several targets are measured numbers: use `task: regression`, or name one target"
        target = f"`{shown(self.target[0])}`"
        if self.target_type == "number":
            return f"data.target_type: number takes {target} as measured: use `task: regression`, or target_type: class"
        held = f"the target column {target} holds measured numbers"
        return f"{held}: use `task: regression`, or data.target_type: class to take each number as a class"

    def _features(self, files: list[str]) -> list[str]:
        """The columns to read as x: those asked for, else all but the target, without those to drop.

        Raises RunError for an unknown or ambiguous one.
        """
        known = column_names(files[0], self.format, self.separator)
        asked = {"data.target": self.target, "data.features": self.features or [], "data.drop": self.drop}
        for where, names in asked.items():
            for name in names:
                if name not in known:
                    raise _unknown(files[0], name, known, where)
        if len(set(self.target)) < len(self.target):
            raise RunError("data", "data.target names a column twice", where="data.target")
        if set(self.target) & {*(self.features or []), *self.drop}:
            message = (
                f"{files[0]}: the features and the target must be different columns, and the target is not dropped"
            )
            raise RunError("data", message, where="data.target")
        columns = self.features or [name for name in known if name not in self.target]
        names = [name for name in dict.fromkeys(columns) if name not in self.drop]
        if not names:
            raise RunError("data", f"{files[0]}: no column is left for the features", where="data.features")
        for file in files:
            _require_once(file, column_names(file, self.format, self.separator), [*names, *self.target])
        for name in [] if self.features else [each for each in names if each in UNNAMED]:
            message = f"{files[0]}: column {known.index(name) + 1} (`{name}`) has no name of its own"
            hint = f"row numbers are often saved so: name it in the file, or {leave_out(name)}"
            raise RunError("data", message, hint, where="data.features")
        return names

    # ------------------------------------------------------------------------------------------ in memory

    def _in_memory(self, files: dict[str, list[str]], encoder: Encoder, seed: int) -> tuple[dict[str, Split], int]:
        """Splits, and the number of rows left out."""
        frames = {name: self._read(group, encoder.features) for name, group in files.items()}
        shares = {name: part for name, part in (("val", self.val), ("test", self.test)) if not isinstance(part, str)}
        dropped = sum(frame.dropped for frame in frames.values())
        whole = frames.pop("train")
        rows = shuffled_rows(len(whole.origins), shares.get("val", 0.0), shares.get("test", 0.0), seed)
        parts = {name: _take(whole, index) for name, index in rows.items()}
        parts.update(frames)
        chunks = [Chunk(part.columns, name == "train", part.origins.__getitem__) for name, part in parts.items()]
        encoder.fit(lambda: chunks)
        names = [name for name in ("train", "val", "test") if name in parts]
        return {name: TensorSplit(encoder(parts[name].columns)) for name in names}, dropped

    def _read(self, files: list[str], features: list[str]) -> Rows:
        """The columns of all files together, and the place of every row."""
        names = [*features, *self.target]
        parts: list[Columns] = []
        origins: list[tuple[str, int]] = []
        dropped = 0
        for file in files:
            table = read_table(file, self.format, self.separator, features, self.target)
            rows = np.arange(table.num_rows)
            if self.missing == "drop":
                rows = complete_rows(table)
                dropped += table.num_rows - len(rows)
                table = table.take(rows)
            if len(rows):
                parts.append(to_columns(table, names))
            origins += [(file, int(row) + 1) for row in rows]
        if not origins:
            said = f"no rows{f' without a missing value (of {dropped})' * (dropped > 0)}"
            raise RunError("data", f"{', '.join(files[:3])}: {said}", where="data.path")
        return Rows({name: np.concatenate([part[name] for part in parts]) for name in names}, origins, dropped)

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
        encoder.fit(lambda: self._chunks(groups, encoder.features, rows))
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

    def _chunks(self, groups: dict[str, list[str]], features: list[str], rows: dict[str, int]) -> Iterator[Chunk]:
        for split, group in groups.items():
            for file in group:
                rows[file] = 0
                for columns in read_batches(file, self.format, features, self.target):
                    yield Chunk(columns, split == "train", _counter(file, rows[file] + 1))
                    rows[file] += len(columns[features[0]])
            if not sum(rows[file] for file in group):
                raise RunError("data", f"{', '.join(group[:3])}: no rows", where="data.path")


def _counter(file: str, first: int) -> Callable[[int], tuple[str, int]]:
    """Tells file and row of the i-th row after `first`."""
    return lambda i: (file, first + i)


def _take(part: Rows, index: np.ndarray) -> Rows:
    columns = {name: values[index] for name, values in part.columns.items()}
    return Rows(columns, [part.origins[i] for i in index.tolist()])


def _unknown(file: str, name: str, known: list[str], where: str) -> RunError:
    alike = [each for each in known if each.strip().casefold() == name.strip().casefold()]
    near = alike[0] if alike else nearest(name, known)
    hint = f"did you mean `{shown(near)}`?  " if near else ""
    hint += f"its columns: {listed([shown(each) for each in known])}"
    return RunError("data", f"{file}: has no column `{shown(name)}`", hint, where=where)


def _require_once(file: str, known: list[str], names: list[str]) -> None:
    """Raise RunError unless a file has each of the names exactly once."""
    counts = Counter(known)
    for name in names:
        count = counts[name]
        if not count:
            raise _unknown(file, name, known, "data.path")
        if count > 1:
            often = "twice" if count == 2 else f"{count} times"
            hint = f"rename all but one of them, or {leave_out(name)}"
            raise RunError("data", f"column `{shown(name)}` stands {often} in {file}", hint, where="data.path")
