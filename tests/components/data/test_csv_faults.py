"""The line of a CSV file that is not as the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raycipe.components.data._csv_faults import find_fault, find_open_quote
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make
from raycipe.framework.training.stream import csv_block

ROWS = "".join(f"{i},{i % 2},w{i % 3}\n" for i in range(20))
UNCLOSED = "a quotation mark opens a cell and is never closed"


@pytest.mark.parametrize("memory", [{}, {"memory_limit_mb": 1e-9, "val": 0, "test": 0}])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"x,y,w\n{ROWS}1,0\n{ROWS}", "line 22 (row 21): 2 cells, where the header has 3"),
        (f"x,y,w\n\n{ROWS}1,0,a,b\n", "line 23 (row 21): 4 cells, where the header has 3"),
        (f'x,y,w\n1,0,"a\nb"\n{ROWS}1,"0\n1\n"\n', "lines 24 to 26 (row 22): 2 cells, where the header has 3"),
        (f'x,y,w\n{ROWS}1,0,"open\n{ROWS}', f"line 22 (row 21): {UNCLOSED}"),
        (f'x,y,w\n{ROWS}1,"0,open\n{ROWS}', f"line 22 (row 21): {UNCLOSED}"),
        (f'x,y,w\n{ROWS}1,0,"a ""b""', f"line 22 (row 21): {UNCLOSED}"),
        (f'x,y,w\n1,0,"open\n{ROWS * 2000}', f"line 2 (row 1): {UNCLOSED}"),
    ],
)
def test_a_ragged_row_and_an_open_quotation_mark_are_told_with_their_line(
    tmp_path: Path, text: str, words: str, memory: dict[str, Any]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(RunError) as caught:
        make("data/csv", path=str(path), target="y", one_hot=True, **memory).load(0)
    assert f"{path}: {words}\n" in str(caught.value)


@pytest.mark.parametrize(
    "row",
    ['1,0,5" pipe', '1,0,"5"" pipe"', '1,0,"a\nb"', '1,0,""', '1,0,"a"b', f'1,0,"{"long" * 40_000}"\n2,0,5" pipe'],
)
def test_sound_quotation_marks_are_no_fault(tmp_path: Path, row: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"x,y,w\n{ROWS}{row}\n{ROWS}")
    assert find_open_quote(str(path), ",") is None and find_fault(str(path), ",") is None


def test_blocks_of_a_streamed_table_hold_several_rows_however_wide(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,2\n")
    assert csv_block(str(path)) == 2**20
    path.write_text(",".join(f"column_{i}" for i in range(10_000)) + "\n")
    assert csv_block(str(path)) == 2**25
