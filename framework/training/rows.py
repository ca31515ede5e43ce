"""Rows of metrics.jsonl, and the sums of one interval of training steps from which the next row is made."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from raycipe.framework.errors import RunError
from raycipe.framework.files import finite, read_rows, write_atomic

Row = dict[str, Any]


class Rows:
    """Appends rows to `<run>/metrics.jsonl` (rank 0 only; other ranks use `write=False`).

    A full disk does not end the run at once: rows wait in memory and are tried again with the next one.
    """

    def __init__(self, path: Path, write: bool = True, listeners: tuple[Callable[[Row], None], ...] = ()) -> None:
        self.path, self.write, self.listeners = path, write, listeners
        self.count = 0  # rows of this run so far, the waiting ones included
        self.waiting: list[str] = []
        self.error: OSError | None = None

    def cut(self, count: int) -> int:
        """Keep the first `count` rows only: those that a restored checkpoint knows of. Gives how many are missing."""
        self.count = count
        if not self.write:
            return 0
        kept = [row for row, _ in zip(read_rows(self.path), range(count), strict=False)]
        self.count = len(kept)
        if self.path.exists():
            write_atomic(self.path, "".join(_line(row) for row in kept))
        return count - len(kept)

    def last_attempt(self) -> int:
        """The attempt number of the last row, -1 if there is none."""
        return max((int(row.get("attempt", 0)) for row in read_rows(self.path)), default=-1)

    def last_step(self) -> int:
        """The step of the last row, 0 if there is none."""
        return max((int(row["step"]) for row in read_rows(self.path)), default=0)

    def add(self, row: Row) -> None:
        self.count += 1
        if not self.write:
            return
        self.waiting.append(_line(row))
        self.flush(sync=False)
        for listener in self.listeners:
            listener(row)

    def flush(self, sync: bool = True) -> None:
        """Write what waits; with `sync`, down to the disk. Raises OSError then."""
        try:
            with self.path.open("ab") as file:
                while self.waiting:
                    _append(file.fileno(), self.waiting[0].encode())
                    self.waiting.pop(0)
                if sync:
                    os.fsync(file.fileno())
            self.error = None
        except OSError as error:
            self.error = error
            if sync:
                raise

    def close(self) -> None:
        """Raises RunError if rows could not be written to the end."""
        if self.write and self.waiting:
            self.flush(sync=False)
        if self.error is not None:
            raise RunError("storage", f"{self.path}: {len(self.waiting)} rows could not be written: {self.error}")


def _append(handle: int, line: bytes) -> None:
    """All of the line or none of it: a torn line would hide every later one from readers."""
    end = os.fstat(handle).st_size
    try:
        if os.write(handle, line) != len(line):
            raise OSError(28, "No space left on device")
    except OSError:
        os.ftruncate(handle, end)
        raise


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(finite(row), separators=(",", ":"), allow_nan=False) + "\n"


class Interval:
    """Losses and scores of this rank since the last row. Nothing here waits for the device before `sums`."""

    def __init__(self) -> None:
        self.losses: list[Tensor] = []  # one a step: the mean over this rank's units
        self.weights: list[Any] = []
        self.steps: list[tuple[int, Tensor]] = []  # (number of the step, this rank's example ids)
        self.scores: dict[str, Tensor] = {}
        self.score_weight: Any = 0.0
        self.checked = 0  # losses known to be finite

    def add(self, loss: Tensor, weight: Any, step: int, ids: Tensor) -> None:
        self.losses.append(loss)
        self.weights.append(weight)
        self.steps.append((step, ids))

    def add_scores(self, scores: Mapping[str, Tensor], weight: Any) -> None:
        for name, value in scores.items():
            self.scores[name] = self.scores.get(name, 0) + value.double()
        self.score_weight = self.score_weight + weight

    def first_nonfinite(self) -> int | None:
        """Index into `losses` of the first one that is NaN or infinite."""
        fresh = self.losses[self.checked :]
        if not fresh:
            return None
        bad = torch.nonzero(~torch.isfinite(torch.stack(fresh)))
        if len(bad):
            return self.checked + int(bad[0])
        self.checked = len(self.losses)
        return None

    def sums(self) -> tuple[list[str], list[float]]:
        """(names of the scores, [weight, weighted losses, score weight, scores...])."""
        weights = torch.tensor([float(weight) for weight in self.weights], dtype=torch.float64)
        losses = torch.stack(self.losses).double().cpu() if self.losses else weights
        loss = float((losses * weights).sum())
        scores = [float(value) for value in self.scores.values()]
        return list(self.scores), [float(weights.sum()), loss, float(self.score_weight), *scores]

    def state(self) -> dict[str, Any]:
        return {
            "losses": torch.stack(self.losses).cpu() if self.losses else torch.zeros(0),
            "weights": [float(weight) for weight in self.weights],
            "scores": {name: value.cpu() for name, value in self.scores.items()},
            "score_weight": float(self.score_weight),
        }

    def drop_last(self) -> None:
        """Forget the last step's loss."""
        for entries in (self.losses, self.weights, self.steps):
            entries.pop()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up saved sums, beside those that are here already."""
        self.losses += list(state["losses"])
        self.weights += state["weights"]
        self.steps += [(0, torch.zeros(0, dtype=torch.int64))] * len(state["weights"])
        for name, value in state["scores"].items():
            self.scores[name] = self.scores.get(name, 0) + value
        self.score_weight = self.score_weight + state["score_weight"]
        self.checked = len(self.losses)  # a checkpoint is written only after the check


def means(names: list[str], sums: list[float], finish: Callable[[dict[str, float]], dict[str, float]]) -> Row:
    """Training metrics of an interval, under `train/`."""
    weight, loss, score_weight, *scores = sums
    values = {"loss": loss / weight if weight else math.nan}
    if score_weight:
        values.update({name: score / score_weight for name, score in zip(names, scores, strict=True)})
    return {f"train/{name}": value for name, value in finish(values).items()}
