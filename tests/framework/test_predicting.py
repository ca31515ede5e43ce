"""Files of rows to predict: a fault is told with its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from raycipe.framework import predicting
from raycipe.framework.errors import RunError
from raycipe.framework.predicting import batches_of


def test_a_torn_row_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "torn.csv").write_text("a,b\n1,2\n1,2,3\n")
    files = [str(tmp_path / "good.csv"), str(tmp_path / "torn.csv")]
    assert [batch.num_rows for batch in batches_of(files[:1], "csv", 1)] == [1, 1]
    with pytest.raises(RunError, match=r"torn\.csv: .*3 columns|torn\.csv: .*got 3"):
        list(batches_of(files, "csv", 10))


def test_the_line_of_the_first_byte_that_is_no_utf8_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "BLOCK", 3)  # a letter of two bytes lies across blocks
    file = tmp_path / "names.csv"
    file.write_text("né,é\né,ü\n", encoding="utf-8")
    predicting.require_utf8(str(file))
    file.write_bytes("a,b\n1,2\nü,caf".encode() + b"\xe9,3\n")
    with pytest.raises(RunError, match=r"names\.csv: line 3 is not UTF-8 \(.*0xe9\)"):
        predicting.require_utf8(str(file))
