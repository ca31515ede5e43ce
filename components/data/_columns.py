"""Shared by the table components: what is known of each column after all rows were seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from raycipe.components.data._files import Columns, leave_out
from raycipe.components.data._splits import beyond_float32
from raycipe.components.data._words import as_number, numeric_first, spelled
from raycipe.framework.errors import RunError, shown
from raycipe.framework.words import listed

GROUP = 2**20  # numbers that are stacked at once


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
        self.has_text = self.has_numbers = False
        self.is_whole = True  # booleans and integers only
        self.is_collected = True  # the words of every chunk seen are in `words`
        self.count, self.mean, self.squares = 0, 0.0, 0.0  # of training rows; squares around the mean

    @property
    def is_number(self) -> bool:
        return not self.has_text

    @property
    def is_mixed(self) -> bool:
        """Text in one file, numbers in another."""
        return self.has_text and self.has_numbers

    def see(self, values: np.ndarray, collect: bool) -> None:
        """Update kind and words from one chunk of values without a gap."""
        if values.dtype.kind in "biuf":
            self.has_numbers = True
        else:
            self.has_text = True
            self.has_numbers = self.has_numbers or not all(isinstance(value, str) for value in values.tolist())
        self.is_whole = self.is_whole and values.dtype.kind in "biu"
        if collect:
            self.collect(values)
        else:
            self.is_collected = False

    def collect(self, values: np.ndarray) -> None:
        self.words.update(np.unique(spelled(values)).tolist())

    def settle(self) -> None:
        """After all words were collected."""
        if self.is_mixed:
            self.words = {as_number(word) for word in self.words}

    def add(self, count: int, mean: float, squares: float) -> None:
        """Merge count, mean and squares of more rows into those seen (Chan's update, exact for any chunking)."""
        total = self.count + count
        if total == 0:
            return
        shift = mean - self.mean
        self.squares += squares + shift**2 * self.count * count / total
        self.mean += shift * count / total
        self.count = total

    @property
    def deviation(self) -> float:
        """Standard deviation over the training rows."""
        return float((self.squares / max(1, self.count)) ** 0.5)

    def sorted_words(self) -> list[str]:
        return sorted(self.words, key=numeric_first)

    def numbers(self, values: np.ndarray, where: str = "data") -> np.ndarray:
        """The position in the sorted words of each value, int64. Raises RunError for one that is not among them."""
        known = self.sorted_words()
        position = {word: number for number, word in enumerate(known)}
        distinct, inverse = np.unique(spelled(values), return_inverse=True)
        words = [as_number(word) if self.is_mixed else word for word in distinct.tolist()]
        new = [word for word in words if word not in position]
        if new:
            message = f"column `{shown(self.name)}` holds `{shown(new[0])}`, which no row of the training data had"
            raise RunError("data", message, f"known: {listed(known)}", where=where)
        return np.array([position[word] for word in words], dtype=np.int64)[inverse]


def see_numbers(columns: Sequence[Column], chunk: Chunk, targets: Sequence[str]) -> None:
    """Check columns of numbers and update mean and squares, many columns at once: a table may have 100,000.

    Raises RunError naming file, row and column of a value that is missing, infinite or beyond float32.
    """
    for group in _groups(columns, chunk):
        stacked = np.stack([chunk.columns[column.name].astype(np.float64) for column in group])  # (columns, rows)
        if not np.isfinite(stacked).all() or beyond_float32(stacked).any():
            for column in group:
                require_values(column.name, chunk, targets)
        if chunk.is_train:
            means = stacked.mean(axis=1)
            squares = ((stacked - means[:, None]) ** 2).sum(axis=1)
            for column, mean, square in zip(group, means.tolist(), squares.tolist(), strict=True):
                column.add(stacked.shape[1], mean, square)


def _groups(columns: Sequence[Column], chunk: Chunk) -> Iterator[Sequence[Column]]:
    """Columns with at least one row, so many at once that they stay small."""
    rows = len(chunk.columns[columns[0].name]) if columns else 0
    size = max(1, GROUP // max(1, rows))
    for start in range(0, len(columns) if rows else 0, size):
        yield columns[start : start + size]


def require_values(name: str, chunk: Chunk, targets: Sequence[str], is_float32: bool = True) -> None:
    """Raise RunError naming row and column of a missing or infinite value, or one that float32 cannot hold."""
    values = chunk.columns[name]
    if values.dtype.kind in "biu":
        return
    if values.dtype.kind != "f":
        missing = np.array([value is None or value != value for value in values.tolist()], dtype=bool)
        faults = [("has no value", missing)]
    else:
        faults = [("has no value", np.isnan(values)), ("is infinite", np.isinf(values))]
        if is_float32:
            faults.append(("", beyond_float32(values) & np.isfinite(values)))
    if any(bad.any() for _, bad in faults):
        at = min(int(np.flatnonzero(bad)[0]) for _, bad in faults if bad.any())
        what, bad = next((what, bad) for what, bad in faults if bad[at])
        source, row = chunk.place(at)
        what = what or f"holds {values[at]:g}, which float32 cannot hold (3.4e38 at most)"
        message = f"{source}: row {row}, column `{shown(name)}` {what} ({int(bad.sum())} such here)"
        skip = "set data.missing: drop to train without such rows, " if what == "has no value" else ""
        raise RunError("data", message, f"correct the file, {skip}or {leave_out(name, targets)}", where="data")
