"""Predictions for the rows of files: which files, whether a model can read them, and the table that comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from raycipe.framework.contracts import Data
from raycipe.framework.errors import RunError, shown
from raycipe.framework.words import listed, nearest

FORMATS = ("parquet", "csv")
BLOCK = 2**22  # bytes that are looked at at once


def input_files(path: str) -> tuple[list[str], str]:
    """The files in the order of their names, and their format. Raises RunError (`predict.path`)."""
    there = Path(path)
    files = [there] if there.is_file() else sorted(file for file in there.glob("*") if file.suffix[1:] in FORMATS)
    if not files:
        raise RunError("data", f"{path}: no file in this folder ends in .parquet or .csv", where="predict.path")
    kinds = {file.suffix for file in files}
    if len(kinds) > 1:
        raise RunError(
            "data", f"{path}: holds files of two formats", "give one of them a folder of its own", "predict.path"
        )
    return [str(file) for file in files], kinds.pop()[1:]


def check_input(section: Mapping[str, Any], data: Data, type_: str) -> None:
    """Raise RunError if the files lack columns, or if the data component makes no features of a table's rows."""
    if not data.table_columns:
        hint = "data that can: csv, parquet (save the data as one of them)"
        raise RunError("recipe", f"data/{type_} makes no features of a table's rows", hint, "predict")
    files, format = input_files(section["path"])
    for file in files:
        if format == "csv":
            require_utf8(file)
        names = open_file(file, format).schema.names
        for where, wanted in (("path", data.table_columns), ("columns", section.get("columns") or [])):
            for name in wanted:
                if name not in names:
                    near = nearest(name, names)
                    hint = f"did you mean `{shown(near)}`?" if near else f"its columns: {listed(names)}"
                    raise RunError("data", f"{file}: has no column `{shown(name)}`", hint, f"predict.{where}")


def require_utf8(file: str) -> None:
    """Raise RunError naming the line of the first byte that is no UTF-8."""
    from codecs import getincrementaldecoder

    decoder, lines = getincrementaldecoder("utf-8")(), 1
    with Path(file).open("rb") as opened:
        while True:
            block = opened.read(BLOCK)
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                line = lines + error.object[: error.start].count(b"\n")
                message = f"{file}: line {line} is not UTF-8 ({error.reason}: 0x{error.object[error.start]:02x})"
                raise RunError("data", message, "save the file as UTF-8", "predict.path") from error
            if not block:
                return
            lines += block.count(b"\n")


def open_file(file: str, format: str, schema: Any = None) -> Any:
    """A pyarrow dataset of one file. Raises RunError."""
    from pyarrow import ArrowInvalid, dataset

    try:
        return dataset.dataset([file], format=format, schema=schema)
    except (ArrowInvalid, OSError) as error:
        raise unreadable(error, file) from error


def batches_of(files: list[str], format: str, size: int) -> Iterator[Any]:
    """The rows of the files in their order, `size` at a time; the first file says the types. Raises RunError."""
    from pyarrow import ArrowInvalid

    schema = open_file(files[0], format).schema
    for file in files:
        rows = open_file(file, format, schema).to_batches(batch_size=size)
        while True:
            try:
                batch = next(rows, None)
            except (ArrowInvalid, OSError) as error:
                raise unreadable(error, file) from error
            if batch is None:
                break
            if batch.num_rows:
                yield batch


def unreadable(error: BaseException, file: str) -> RunError:
    """What pyarrow says of a file that it can't read."""
    return RunError("data", f"{file}: {' '.join(str(error).split())[:200]}", "correct the file", "predict.path")


class Predictor:
    """Turns a table of rows into a table of predictions. It holds a model or a fitted estimator, and its data."""

    def __init__(self, data: Data, model: Any, estimator: Any, device: str, columns: list[str] | None) -> None:
        self.data, self.model, self.estimator, self.device, self.columns = data, model, estimator, device, columns

    def __call__(self, table: Any) -> Any:
        """`prediction`, with classes `probability_<class>` too; before them the columns of the input that are kept."""
        import pyarrow as pa

        x = self.data.features_of(table)
        found = self._of_estimator(x) if self.model is None else self._of_model(x)
        kept = table.column_names if self.columns is None else self.columns
        doubled = [name for name in found if name in kept]
        if doubled:
            message = f"the input has a column `{shown(doubled[0])}` itself"
            raise RunError("data", message, "name the columns to keep in predict.columns", "predict.columns")
        arrays = {name: pa.array(values) for name, values in found.items()}
        return pa.table({**{name: table.column(name) for name in kept}, **arrays})

    def _of_model(self, x: torch.Tensor) -> dict[str, Any]:
        with torch.inference_mode():
            outputs = self.model.to(self.device).eval()(x.to(self.device))
        classes = self.data.facts.get("num_classes")
        if not isinstance(outputs, torch.Tensor) or outputs.shape[:1] != x.shape[:1] or outputs.dim() > 2:
            raise RunError("recipe", "the model gives no row of numbers for each example", where="predict")
        if classes is None:
            return _numbers(outputs.double().cpu().numpy())
        return self._classes(outputs.double().softmax(dim=1).cpu().numpy())

    def _of_estimator(self, x: torch.Tensor) -> dict[str, Any]:
        from raycipe.framework.scores import class_probabilities

        rows = x.reshape(len(x), -1).numpy().astype(np.float64)
        classes = self.data.facts.get("num_classes")
        if classes is None:
            return _numbers(np.asarray(self.estimator.predict(rows), dtype=np.float64))
        predicted = np.asarray(self.estimator.predict(rows), dtype=np.int64)
        probabilities = class_probabilities(self.estimator, classes, rows)
        if probabilities is None:
            return {"prediction": [self._names[number] for number in predicted]}
        return {**self._classes(probabilities), "prediction": [self._names[number] for number in predicted]}

    @property
    def _names(self) -> list[str]:
        facts = self.data.facts
        return [str(name) for name in facts.get("class_names") or range(facts["num_classes"])]

    def _classes(self, probabilities: np.ndarray) -> dict[str, Any]:
        names = self._names
        found: dict[str, Any] = {"prediction": [names[number] for number in probabilities.argmax(axis=1)]}
        return {**found, **{f"probability_{name}": probabilities[:, number] for number, name in enumerate(names)}}


def _numbers(values: np.ndarray) -> dict[str, Any]:
    columns = values.reshape(len(values), -1).T
    return {"prediction" if len(columns) == 1 else f"prediction_{number}": each for number, each in enumerate(columns)}
