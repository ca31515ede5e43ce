"""`raycipe compare` in the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from raycipe.framework.runs import create
from raycipe.launchers.cli import raycipe

RECIPE = "recipe: 1\nname: toy\noptimizer: {{type: sgd, lr: {lr}}}\nmodel: {{type: mlp, hidden: [{width}]}}\n"


def make_runs(storage: Path, count: int) -> list[str]:
    found = []
    for number in range(count):
        run = create(storage, "toy")
        run.write("resolved.yaml", RECIPE.format(lr=0.01 * (number + 1), width=2**number))
        final = {"test/accuracy": 0.9 + number / 1000, "measure/confusion_matrix/balanced_accuracy": number / 100}
        run.write("provenance.json", {"format": 1})
        run.write("result.json", {"format": 1, "status": "done", "final": final})
        found.append(str(run))
    return found


@pytest.mark.parametrize("columns", ["80", "120"])
def test_thirty_runs_are_rows_that_fit(
    columns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    found = make_runs(tmp_path, 30)
    assert raycipe(["compare", *found, "--out", str(tmp_path / "compare.html")]) == 0
    lines = capsys.readouterr().out.splitlines()
    title, *rows = lines[:31]
    assert title.split()[:4] == ["run", "lr", "hidden", "test/accuracy"]
    assert [row.split()[0] for row in rows] == [path[-4:] for path in found]
    assert [float(row.split()[3]) for row in rows] == pytest.approx([0.9 + number / 1000 for number in range(30)])
    assert all(len(line) <= int(columns) for line in lines[:-1]) and lines[-1].endswith("compare.html")
    page = (tmp_path / "compare.html").read_text()
    assert "balanced_accuracy" in page and all(path in page for path in found)


def test_what_has_no_room_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert raycipe(["compare", *make_runs(tmp_path, 8), "--out", str(tmp_path / "compare.html")]) == 0
    out = capsys.readouterr().out
    assert "1 more column and all curves in\n" in out and "balanced_accuracy" not in out.splitlines()[0]


def test_a_few_runs_are_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = make_runs(tmp_path, 2)
    assert raycipe(["compare", *found, "--out", str(tmp_path / "compare.html")]) == 0
    title, first, *_ = capsys.readouterr().out.splitlines()
    assert title.split() == [path[-4:] for path in found] and first.split() == ["optimizer.lr", "0.01", "0.02"]


def test_a_recipes_name_alone_means_all_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = make_runs(tmp_path, 3)
    words = ["--storage", str(tmp_path), "--out", str(tmp_path / "compare.html")]
    assert raycipe(["compare", "toy", *words]) == 0
    assert set(capsys.readouterr().out.split()[:3]) == {path[-4:] for path in found}
    assert raycipe(["compare", "/nowhere/at/all", *words]) == 2
    assert "no such run" in capsys.readouterr().err
    assert raycipe(["compare", "toy", "toy", *words]) == 2
    assert "needs at least two different runs" in capsys.readouterr().err
