"""Shared by the table components: which files there are, what columns stand in them, and reading those."""

from __future__ import annotations

import csv as text_csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from raycipe.components.data._csv_faults import find_fault, find_open_quote
from raycipe.framework.errors import RunError, shown
from raycipe.framework.training.stream import csv_block

Columns = Mapping[str, np.ndarray]
Format = Literal["csv", "parquet"]
SEPARATORS = {",": '","', ";": '";"', "\t": '"\\t"', "|": '"|"'}  # as a recipe writes them
SAVE_AS_UTF8 = "save the file as UTF-8 (a spreadsheet calls it `CSV UTF-8`)"
MAX_BLOCK = 2**31 - 1  # bytes; pyarrow's limit


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
    """The names of all columns. Raises RunError for a file that is empty or of another format, coding or separator."""
    with reading(file):
        if format == "parquet":
            from pyarrow import parquet

            return list(parquet.read_schema(file).names)
        names = _header(file, separator)
    if any("\udc80" <= letter <= "\udcff" for letter in "".join(names)):
        raise RunError("data", f"{file}: the header is not UTF-8", SAVE_AS_UTF8, where="data.path")
    if "\0" in "".join(names):
        raise RunError("data", f"{file}: is not a text file", "save the table as CSV", where="data.path")
    others = [mark for mark in SEPARATORS if len(names) == 1 and mark in names[0]]
    if others:
        message = f"only one column was found in {file}: is `separator: {SEPARATORS[others[0]]}` meant?"
        raise RunError("data", message, f"its header is `{shown(names[0])}`", where="data.separator")
    return names


def _header(file: str, separator: str) -> list[str]:
    """The cells of the first line that is not empty; bytes that are not UTF-8 become lone surrogates."""
    with Path(file).open("rb") as raw:
        if raw.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            raise RunError("data", f"{file}: is UTF-16, not UTF-8", SAVE_AS_UTF8, where="data.path")
    with Path(file).open(encoding="utf-8-sig", errors="surrogateescape", newline="") as opened:
        names = next((row for row in text_csv.reader(opened, delimiter=separator) if row), None)
    if names is None:
        hint = "the first line names the columns, each further one is an example"
        raise RunError("data", f"{file}: is empty", hint, where="data.path")
    return names


def read_table(file: str, format: Format, separator: str, features: list[str], targets: list[str]) -> Any:
    """A pyarrow table of the features and targets; a column's type is inferred from its rows (of the first 2 GB)."""
    names = [*features, *targets]
    _require_closed_quotes(file, format, separator)
    with reading(file, separator if format == "csv" else None):
        if format == "parquet":
            from pyarrow import parquet

            table = parquet.read_table(file, columns=names)
        else:
            block = min(Path(file).stat().st_size + 1, MAX_BLOCK)
            with open_csv(file, names, separator, block) as opened:
                table = opened.read_all()
    require_types(table, file, format, targets)
    for name in names:
        if table.num_rows and table.column(name).null_count == table.num_rows:
            raise RunError("data", f"{file}: column `{shown(name)}` is empty", leave_out(name, targets), where="data")
    return table


def read_batches(file: str, format: Format, features: list[str], targets: list[str]) -> Iterator[Columns]:
    """Features and targets in pieces of at least one row, typed as the streaming reader will type them."""
    names, schema = [*features, *targets], None
    _require_closed_quotes(file, format, ",")
    with reading(file, "," if format == "csv" else None), _opened(file, format, names) as opened:
        for batch in opened.iter_batches(columns=names) if format == "parquet" else opened:
            if schema is None:  # it is the same for all
                require_types(batch, file, format, targets)
                schema = batch.schema
            if batch.num_rows:
                yield to_columns(batch, names)


def _opened(file: str, format: Format, names: list[str]) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(file) if format == "parquet" else open_csv(file, names, ",", csv_block(file))


def _require_closed_quotes(file: str, format: Format, separator: str) -> None:
    """Raise RunError for a quotation mark that pyarrow would take to open a cell of all further rows, silently."""
    fault = find_open_quote(file, separator) if format == "csv" else None
    if fault:
        raise RunError("data", f"{file}: {fault}", "close it, or write two for one that is meant", where="data.path")


def open_csv(file: str, names: list[str], separator: str, block_size: int | None = None) -> Any:
    """pyarrow's reader; empty cells and `NA` are missing in text columns too."""
    from pyarrow import csv

    return csv.open_csv(
        file,
        read_options=csv.ReadOptions(block_size=block_size),
        parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=csv.ConvertOptions(include_columns=names, strings_can_be_null=True),
    )


def require_types(table: Any, file: str, format: Format, targets: list[str]) -> None:
    """Raise RunError for a column that holds neither numbers nor text."""
    from pyarrow import types

    for name, column in zip(table.schema.names, table.columns, strict=True):
        type_ = column.type.value_type if types.is_dictionary(column.type) else column.type
        if format == "csv" and types.is_binary(type_):  # pyarrow's way to say that some cell is no UTF-8
            row = 1 + next(i for i, cell in enumerate(column.to_pylist()) if not _is_utf8(cell))
            message = f"{file}: row {row}, column `{shown(name)}` is not UTF-8"
            raise RunError("data", message, f"{SAVE_AS_UTF8}, or {leave_out(name, targets)}", where="data.path")
        held = _refused(type_)
        if held:
            message = f"{file}: column `{shown(name)}` holds {held}, which are neither numbers nor text"
            hint = f"turn them into numbers in the file, or {leave_out(name, targets)}"
            raise RunError("data", message, hint, where="data")


def _refused(type_: Any) -> str | None:
    """What a column of this type holds, in words, if it can be neither a feature nor a target."""
    from pyarrow import types

    if types.is_date(type_) or types.is_timestamp(type_):
        return "dates"
    if types.is_time(type_) or types.is_duration(type_) or types.is_interval(type_):
        return "times"
    texts = types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)
    numbers = types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_) or types.is_boolean(type_)
    if texts or numbers or types.is_null(type_):
        return None
    return f"values of the type {shown(type_)}"


def _is_utf8(cell: bytes | None) -> bool:
    try:
        (cell or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def leave_out(name: str, targets: Sequence[str] = ()) -> str:
    """What to do without a column."""
    if name in targets:
        return "choose another data.target"
    plain = re.fullmatch(r"[A-Za-z_]\w*", name)
    written = name if plain else '"' + shown(name).replace('"', '\\"') + '"'
    return f"leave the column out with data.drop: [{written}]"


def complete_rows(table: Any) -> np.ndarray:
    """Numbers of the rows without a missing value (NaN counts as missing)."""
    missing = np.zeros(table.num_rows, dtype=bool)
    for column in table.columns:
        missing |= column.is_null(nan_is_null=True).to_numpy()
    return np.flatnonzero(~missing)


def to_columns(table: Any, names: list[str]) -> Columns:
    from pyarrow import types

    return {name: _to_numpy(table.column(name), types) for name in names}


def _to_numpy(column: Any, types: Any) -> np.ndarray:
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_decimal(column.type):
        column = column.cast("float64")
    elif types.is_boolean(column.type):
        column = column.cast("uint8")  # with a null it would become Python objects
    return column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False)


@contextmanager
def reading(file: str, separator: str | None = None) -> Iterator[None]:
    """Turns what is said of a malformed file into a RunError that names the file and the row (without a header).

    With the separator of a CSV file the line that is not as the others is looked for.
    """
    try:
        yield
    except (OSError, ValueError, KeyError, text_csv.Error) as error:  # pyarrow's errors derive from the first three
        said = " ".join(str(error).removeprefix("CSV parse error: ").split())
        said = re.sub(r"\bRow #(\d+)", lambda found: f"row {int(found[1]) - 1}", said)  # pyarrow counts the header
        hint = "is it complete, and of this format?"
        fault = None if separator is None or "conversion error" in said else find_fault(file, separator)
        if fault:
            said, hint = fault, "a cell that holds the separator stands in quotation marks; is the file complete?"
        elif "UTF8" in said:
            hint = SAVE_AS_UTF8
        elif "conversion error" in said:
            hint = (
                "streamed, a column has the type of its first rows: "
                "correct the cell, convert the file to parquet, or raise data.memory_limit_mb"
            )
        raise RunError("data", f"{file}: {said}", hint, where="data.path") from error
