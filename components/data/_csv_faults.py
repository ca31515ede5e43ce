"""Shared by the table components: the line of a CSV file that is not as the others, for what pyarrow does not tell."""

from __future__ import annotations

import csv
import re
from itertools import islice
from pathlib import Path

MAX_SEARCH = 2**30  # bytes; an unclosed quotation mark is not looked for in larger files
UNCLOSED = "a quotation mark opens a cell and is never closed"


def find_fault(file: str, separator: str) -> str | None:
    """The first row with more or fewer cells than the header, or whose quotation mark is never closed, in words."""
    width, number, start, end = 0, -1, 1, 0  # of the header; of the row, without the header; its first and last line
    with Path(file).open(encoding="utf-8-sig", errors="surrogateescape", newline="") as opened:
        reader = csv.reader(opened, delimiter=separator)
        try:
            for row in reader:
                start, end = end + 1, reader.line_num
                number += bool(row)
                width = width or len(row)
                if row and len(row) != width:
                    if _is_open(file, start, separator):
                        return _unclosed(start, number)
                    lines = f"line {start}" if end == start else f"lines {start} to {end}"
                    cells = f"{len(row)} cell{'s' * (len(row) != 1)}"
                    return f"{lines} (row {number}): {cells}, where the header has {width}"
        except csv.Error:  # a cell beyond csv's limit of 131,072 characters
            start, number = end + 1, number + 1
    return _unclosed(start, number) if _is_open(file, start, separator) else None


def find_open_quote(file: str, separator: str) -> str | None:
    """The place of a quotation mark that opens a cell and is never closed: the rest of the file would be one cell."""
    if Path(file).stat().st_size > MAX_SEARCH or not _has_odd_quotes(file):
        return None
    fault = find_fault(file, separator)
    return fault if fault and fault.endswith(UNCLOSED) else None


def _unclosed(line: int, row: int) -> str:
    return f"line {line} ({f'row {row}' if row > 0 else 'the header'}): {UNCLOSED}"


def _has_odd_quotes(file: str) -> bool:
    count = 0
    with Path(file).open("rb") as opened:
        while block := opened.read(2**22):
            count += block.count(b'"')
    return count % 2 == 1


def _is_open(file: str, line: int, separator: str) -> bool:
    """Whether the row that starts at `line` has a quoted cell without an end."""
    with Path(file).open(encoding="utf-8-sig", errors="surrogateescape", newline="") as opened:
        rest = "".join(islice(opened, line - 1, None))
    cell = re.compile(rf'"(?:[^"]|"")*+("?)[^{re.escape(separator)}\r\n]*|[^{re.escape(separator)}\r\n]*')
    at = 0
    while found := cell.match(rest, at):
        if found[0].startswith('"') and not found[1]:
            return True
        at = found.end() + 1
        if rest[found.end() : at] != separator:
            return False
    return False
