"""Shared by the table components: from columns to `x` and `y`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch

from raycipe.components.data._columns import Chunk, Column, Text, require_values, see_numbers
from raycipe.components.data._files import Columns, leave_out, to_columns
from raycipe.components.data._splits import beyond_float32, usable_spread
from raycipe.components.data._words import is_number
from raycipe.framework.contracts import Batch
from raycipe.framework.errors import RunError, shown

COMMAS = re.compile(r"\s*[-+]?[\d.]*\d(,\d+)+(\.\d*)?\s*")  # 1,234  1,234.5  1,5  1.234,5
NO_COMMAS = "write numbers without thousands separators and with a decimal point, as in 1234.5"


class Encoder:
    """Turns columns into `x` (rows, features) float32 and `y`: class numbers, or (rows, targets) float32."""

    def __init__(
        self, features: Sequence[str], targets: Sequence[str], classes: bool | None, one_hot: bool, standardize: bool
    ) -> None:
        self.columns = {name: Column(name) for name in (*features, *targets)}
        self.features, self.targets = list(features), list(targets)
        self.classes = classes  # None: decided by the target's type
        self.one_hot, self.standardize = one_hot, standardize

    def fit(self, chunks: Callable[[], Iterable[Chunk]]) -> None:
        """Pass over all rows: kinds, classes and words from each of them, mean and spread from training rows.

        A second pass is made only where a column of words or classes held numbers in some file: which of them are
        words is not known before the end, and all numbers of a table would be too many to keep.
        """
        self.rows = 0
        for chunk in chunks():
            self._see(chunk)
        for name, column in self.columns.items():
            if column.text:
                raise _text(name, column.text, name in self.targets)
        is_decided = self.classes is not None
        target = self.columns[self.targets[0]]
        if self.classes is None:
            self.classes = len(self.targets) == 1 and (target.is_whole or not target.is_number)
        worded = [self.columns[name] for name in self.features if not self.columns[name].is_number]
        worded += [target] if self.classes else []
        again = [column for column in worded if not column.is_collected]
        for chunk in chunks() if again else ():
            for column in again:
                column.collect(chunk.columns[column.name])
        for column in worded:
            column.settle()
        self._require_sound(target, is_decided)

    def _see(self, chunk: Chunk) -> None:
        """Kinds, words and moments of one chunk. Raises RunError for a value that no other chunk could excuse."""
        self.rows += len(chunk.columns[self.targets[0]])
        numbers = []
        for name, column in self.columns.items():
            values, is_target = chunk.columns[name], name in self.targets
            is_text = values.dtype.kind not in "biuf"
            if is_text or is_target:
                require_values(name, chunk, self.targets, is_float32=not (is_target and self.classes))
            else:
                numbers.append(column)
            if is_target:
                column.see(values, bool(self.classes) or (self.classes is None and values.dtype.kind != "f"))
            else:
                column.see(values, self.one_hot and is_text)
            if is_text and (self.classes is False if is_target else not self.one_hot):
                found = _first_text(values, chunk)
                column.text = column.text or found
                if not is_number(found.value):
                    raise _text(column.name, found, is_target)
        see_numbers(numbers, chunk, self.targets)

    def _require_sound(self, target: Column, is_decided: bool) -> None:
        """Raise RunError for words that are numbers with commas or ids, and for classes that tell nothing apart."""
        if self.classes and not is_decided:
            _refuse_commas(target)
        for name in self.features:
            if not self.columns[name].is_number:
                _refuse_commas(self.columns[name])
                _require_few_words(self.columns[name], self.rows)
        if self.classes and len(target.words) < 2:
            message = f"the target `{shown(target.name)}` is `{shown(min(target.words))}` in every row"
            hint = "classes need two different values at least"
            raise RunError("data", f"{message}: there is nothing to tell apart", hint, where="data.target")
        if self.classes and not is_decided:
            _require_few_classes(target, self.rows)

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
        """(rows, features): a number is one of them, a text column one a word, 0 or 1."""
        pieces = []
        for is_numeric, names in groupby(self.features, key=lambda name: self.columns[name].is_number):
            if is_numeric:
                pieces.append(self._scaled(list(names), columns))
            else:
                pieces += [_one_hot(self.columns[name], columns[name]) for name in names]
        return torch.from_numpy(np.concatenate(pieces, axis=1))

    def _scaled(self, names: list[str], columns: Columns) -> np.ndarray:
        """(rows, names) float32, all at once: a table may have 100,000 columns."""
        stacked = np.stack([columns[name].astype(np.float64) for name in names], axis=1)
        if self.standardize:
            mean = np.array([self.columns[name].mean for name in names])
            stacked -= mean
            stacked /= usable_spread(mean, np.array([self.columns[name].deviation for name in names]))
        return stacked.astype(np.float32)

    def of_table(self, table: Any) -> torch.Tensor:
        """x of further rows, a pyarrow table. Raises RunError for a column that is not as it was in training."""
        columns = to_columns(table, self.features)
        for name, values in columns.items():
            is_float = values.dtype.kind == "f"
            missing = int(table.column(name).null_count) or (int(np.isnan(values).sum()) if is_float else 0)
            if missing:
                raise RunError("data", f"column `{shown(name)}` has no value in {missing} rows", where="predict.path")
            if self.columns[name].is_number and values.dtype.kind not in "biuf":
                found = shown(values[0])
                message = f"column `{shown(name)}` holds text such as `{found}`; the model was trained on numbers"
                raise RunError("data", message, where="predict.path")
            large = values[beyond_float32(values)] if is_float else values[:0]
            if len(large):
                message = f"column `{shown(name)}` holds {large[0]:g}, which float32 cannot hold (3.4e38 at most)"
                raise RunError("data", message, where="predict.path")
            if not self.columns[name].is_number:
                self.columns[name].numbers(values, "predict.path")
        return self._features(columns)

    def _target(self, columns: Columns) -> torch.Tensor:
        if self.classes:
            return torch.from_numpy(self.columns[self.targets[0]].numbers(columns[self.targets[0]]))
        stacked = np.stack([columns[name].astype(np.float64) for name in self.targets], axis=1)
        return torch.from_numpy(stacked.astype(np.float32))


def _one_hot(column: Column, values: np.ndarray) -> np.ndarray:
    """(rows, words) float32 of 0 and 1."""
    encoded = np.zeros((len(values), len(column.words)), dtype=np.float32)
    encoded[np.arange(len(values)), column.numbers(values)] = 1
    return encoded


def _refuse_commas(column: Column) -> None:
    """Raise RunError for text that is numbers written with commas: as words they would lose their meaning."""
    commas = [word for word in column.words if COMMAS.fullmatch(word)]
    if commas and all(COMMAS.fullmatch(word) or is_number(word) for word in column.words):
        message = f"column `{shown(column.name)}` holds numbers with a comma, such as `{shown(min(commas))}`"
        raise RunError("data", message, NO_COMMAS, where="data")


def too_many(count: int, rows: int) -> bool:
    """Whether so many distinct values are rather ids, free text or measured numbers than words or classes."""
    return count > max(50, rows / 10)


def _require_few_words(column: Column, rows: int) -> None:
    """Raise RunError for an id or free text, which would become about as many features as there are rows."""
    if too_many(len(column.words), rows):
        message = (
            f"column `{shown(column.name)}` holds {len(column.words)} distinct words in {rows} rows, "
            "too many for data.one_hot to make a feature of each"
        )
        raise RunError("data", message, f"{leave_out(column.name)}, or group its words in the file", where="data")


def _require_few_classes(target: Column, rows: int) -> None:
    """Raise RunError for a target that was not said to be one of classes and is rather an id or a measured number."""
    if too_many(len(target.words), rows):
        count = len(target.words)
        message = (
            f"the target `{shown(target.name)}` holds {count} distinct values in {rows} rows, "
            "too many to take each as a class unasked"
        )
        number = "set data.target_type: number to predict it as measured, " if target.is_number else ""
        hint = f"{number}set data.target_type: class if they are classes, or choose another data.target"
        raise RunError("data", message, hint, where="data.target_type")


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
    at = next((i for i, value in enumerate(values.tolist()) if not is_number(value)), 0)
    return Text(*chunk.place(at), str(values[at])[:40])
