"""Shared by the table components: from columns to `x` and `y`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from raycipe.components.data._files import Columns, leave_out, to_columns
from raycipe.framework.contracts import Batch
from raycipe.framework.errors import RunError, shown
from raycipe.framework.words import listed

COMMAS = re.compile(r"\s*[-+]?[\d.]*\d(,\d+)+(\.\d*)?\s*")  # 1,234  1,234.5  1,5  1.234,5
NO_COMMAS = "write numbers without thousands separators and with a decimal point, as in 1234.5"


class Chunk(NamedTuple):
    """Rows to look at; `place` tells file and row of the i-th (rows count from 1, without a header)."""

    columns: Columns
    is_train: bool
    place: Callable[[int], tuple[str, int]]


class Text(NamedTuple):
    """A text where a number is wanted."""

    source: str
    row: int
    value: str


class Column:
    """What is known of one column after all rows were seen: numbers with mean and spread, or a set of words."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.words: set[str] = set()
        self.text: Text | None = None
        self.is_number = True
        self.is_whole = True  # booleans and integers only
        self.count, self.mean, self.squares = 0, 0.0, 0.0  # of training rows; squares around the mean

    def see(self, values: np.ndarray, chunk: Chunk, collect: bool) -> None:
        """Update from one chunk of values without a gap."""
        if values.dtype.kind not in "biuf":
            self.is_number = self.is_whole = False
        elif values.dtype.kind == "f":
            self.is_whole = False
        if collect:
            self.words.update(np.unique(as_words(values)).tolist())
        if self.is_number and chunk.is_train:
            self._add(values.astype(np.float64))

    def _add(self, values: np.ndarray) -> None:
        """Merge count, mean and squares of more rows into those seen (Chan's update, exact for any chunking)."""
        total, mean = self.count + len(values), float(values.mean()) if len(values) else 0.0
        if total == 0:
            return
        shift = mean - self.mean
        self.squares += float(((values - mean) ** 2).sum()) + shift**2 * self.count * len(values) / total
        self.mean += shift * len(values) / total
        self.count = total

    @property
    def spread(self) -> float:
        """Standard deviation over the training rows; 1 for a constant column."""
        variance = self.squares / max(1, self.count)
        return variance**0.5 if variance > 0 else 1.0

    def sorted_words(self) -> list[str]:
        return sorted(self.words, key=_numeric_first)


class Encoder:
    """Turns columns into `x` (rows, features) float32 and `y`: class numbers, or (rows, targets) float32."""

    def __init__(
        self, features: Sequence[str], targets: Sequence[str], classes: bool | None, one_hot: bool, standardize: bool
    ) -> None:
        self.columns = {name: Column(name) for name in (*features, *targets)}
        self.features, self.targets = list(features), list(targets)
        self.classes = classes  # None: decided by the target's type
        self.one_hot, self.standardize = one_hot, standardize

    def fit(self, chunks: Iterable[Chunk]) -> None:
        """One pass over all rows: kinds, classes and words from each of them, mean and spread from training rows."""
        rows = 0
        for chunk in chunks:
            rows += len(chunk.columns[self.targets[0]])
            for name, column in self.columns.items():
                self._see(column, chunk.columns[name], chunk, name in self.targets)
        for name, column in self.columns.items():
            if column.text:
                raise _text(name, column.text, name in self.targets)
        if self.classes is None:
            target = self.columns[self.targets[0]]
            self.classes = len(self.targets) == 1 and (target.is_whole or not target.is_number)
            if self.classes:
                _refuse_commas(target)
        for name in self.features:
            if not self.columns[name].is_number:
                _refuse_commas(self.columns[name])
                _require_few_words(self.columns[name], rows)
        if self.classes and len(self.class_names) < 2:
            name, value = self.targets[0], self.class_names[0]
            message = f"the target `{shown(name)}` is `{shown(value)}` in every row: there is nothing to tell apart"
            raise RunError("data", message, "classes need two different values at least", where="data.target")

    def _see(self, column: Column, values: np.ndarray, chunk: Chunk, is_target: bool) -> None:
        _require_values(column.name, values, chunk, self.targets)
        is_text = values.dtype.kind not in "biuf"
        wants_words = self.classes is not False if is_target else self.one_hot and is_text
        column.see(values, chunk, wants_words)
        if is_text and (self.classes is False if is_target else not self.one_hot):
            found = _first_text(values, chunk)
            column.text = column.text or found
            if not _is_number(found.value):
                raise _text(column.name, found, is_target)

    @property
    def class_names(self) -> list[str]:
        return self.columns[self.targets[0]].sorted_words() if self.classes else []

    @property
    def feature_names(self) -> list[str]:
        names = []
        for name in self.features:
            column = self.columns[name]
            names += [name] if column.is_number else [f"{name}={word}" for word in column.sorted_words()]
        return names

    def __call__(self, columns: Columns) -> Batch:
        """x and y of some rows."""
        return {"x": self._features(columns), "y": self._target(columns)}

    def _features(self, columns: Columns) -> torch.Tensor:
        x = np.concatenate([self._encode(self.columns[name], columns[name]) for name in self.features], axis=1)
        return torch.from_numpy(x.astype(np.float32))

    def of_table(self, table: Any) -> torch.Tensor:
        """x of further rows, a pyarrow table. Raises RunError for a column that is not as it was in training."""
        columns = to_columns(table, self.features)
        for name, values in columns.items():
            column = self.columns[name]
            missing = int(table.column(name).null_count) or (
                int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0
            )
            if missing:
                raise RunError("data", f"column `{shown(name)}` has no value in {missing} rows", where="predict.path")
            if column.is_number and values.dtype.kind not in "biuf":
                found = shown(values[0])
                message = f"column `{shown(name)}` holds text such as `{found}`; the model was trained on numbers"
                raise RunError("data", message, where="predict.path")
            if not column.is_number:
                self._require_known(column, values)
        return self._features(columns)

    def _require_known(self, column: Column, values: np.ndarray) -> None:
        new = sorted(set(np.unique(as_words(values)).tolist()) - column.words)
        if new:
            message = f"column `{shown(column.name)}` holds `{shown(new[0])}`, which no row of the training data had"
            raise RunError("data", message, f"known: {listed(column.sorted_words())}", where="predict.path")

    def _encode(self, column: Column, values: np.ndarray) -> np.ndarray:
        """(rows, 1) for a number, (rows, words) of 0 and 1 for text."""
        if not column.is_number:
            encoded = np.zeros((len(values), len(column.words)), dtype=np.float32)
            encoded[np.arange(len(values)), _numbers(values, column.sorted_words())] = 1
            return encoded
        numbers = values.astype(np.float64)[:, None]
        return (numbers - column.mean) / column.spread if self.standardize else numbers

    def _target(self, columns: Columns) -> torch.Tensor:
        if self.classes:
            return torch.from_numpy(_numbers(columns[self.targets[0]], self.class_names))
        stacked = np.stack([columns[name].astype(np.float64) for name in self.targets], axis=1)
        return torch.from_numpy(stacked.astype(np.float32))


def as_words(values: np.ndarray) -> np.ndarray:
    """Values as comparable text; 1, 1.0 and true are all `1`."""
    if values.dtype.kind == "b" or (values.dtype.kind == "f" and np.all(values == np.round(values))):
        return values.astype(np.int64).astype(str)
    return values.astype(str)


def _numbers(values: np.ndarray, words: list[str]) -> np.ndarray:
    """The position in `words` of each value, int64."""
    found = {word: number for number, word in enumerate(words)}
    distinct, inverse = np.unique(as_words(values), return_inverse=True)
    return np.array([found[word] for word in distinct.tolist()], dtype=np.int64)[inverse]


def _numeric_first(word: str) -> tuple[int, float, str]:
    """Sort key: numbers by value, then text."""
    try:
        return (0, float(word), word)
    except ValueError:
        return (1, 0.0, word)


def _require_values(name: str, values: np.ndarray, chunk: Chunk, targets: Sequence[str]) -> None:
    """Raise RunError naming row and column of a missing or infinite value."""
    if values.dtype.kind == "f":
        bad = ~np.isfinite(values)
    elif values.dtype.kind in "biu":
        return
    else:
        bad = np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        is_infinite = values.dtype.kind == "f" and bool(np.isinf(values[at]))
        source, row = chunk.place(at)
        what = "is infinite" if is_infinite else "has no value"
        message = f"{source}: row {row}, column `{shown(name)}` {what} ({int(bad.sum())} such here)"
        skip = "" if is_infinite else "set data.missing: drop to train without such rows, "
        raise RunError("data", message, f"correct the file, {skip}or {leave_out(name, targets)}", where="data")


def _refuse_commas(column: Column) -> None:
    """Raise RunError for text that is numbers written with commas: as words they would lose their meaning."""
    commas = [word for word in column.words if COMMAS.fullmatch(word)]
    if commas and all(COMMAS.fullmatch(word) or _is_number(word) for word in column.words):
        message = f"column `{shown(column.name)}` holds numbers with a comma, such as `{shown(min(commas))}`"
        raise RunError("data", message, NO_COMMAS, where="data")


def _require_few_words(column: Column, rows: int) -> None:
    """Raise RunError for an id or free text, which would become about as many features as there are rows."""
    if len(column.words) > max(50, rows / 10):
        message = (
            f"column `{shown(column.name)}` holds {len(column.words)} distinct words in {rows} rows, "
            "too many for data.one_hot to make a feature of each"
        )
        raise RunError("data", message, f"{leave_out(column.name)}, or group its words in the file", where="data")


def _text(name: str, found: Text, is_target: bool) -> RunError:
    what = "target" if is_target else "column"
    message = f"{found.source}: row {found.row}, {what} `{shown(name)}` holds the text `{shown(found.value)}`"
    if COMMAS.fullmatch(found.value):
        return RunError("data", f"{message}, a number with a comma", NO_COMMAS, where="data")
    if is_target:
        return RunError("data", f"{message}, not a number", "for classes set data.target_type: class", "data.target")
    hint = f"correct it, {leave_out(name)}, or set data.one_hot: true to make one feature a word"
    return RunError("data", f"{message}, but features must be numbers", hint, where="data.features")


def _first_text(values: np.ndarray, chunk: Chunk) -> Text:
    """The first entry that is no number; where each could be one (the reason lies in other rows), the first of all."""
    at = next((i for i, value in enumerate(values.tolist()) if not _is_number(value)), 0)
    return Text(*chunk.place(at), str(values[at])[:40])


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]  # whatever it is
    except (TypeError, ValueError):
        return False
    return True
