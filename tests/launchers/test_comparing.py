"""`raycipe compare` in the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from raycipe.framework.results.compare import compare
from raycipe.framework.results.turned import turn
from raycipe.framework.runs import Run, create
from raycipe.launchers.cli import raycipe
from raycipe.launchers.comparing import chosen

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


BRANCHES = {
    "0001": "model: {type: mlp, hidden: [8], dropout: 0.1}\noptimizer: {type: sgd, lr: 0.123456789, nesterov: false}\n",
    "0002": "model: {type: linear, bias: true}\noptimizer: {type: adam, lr: 0.5, amsgrad: false}\n",
}


def make_sweep(storage: Path) -> Path:
    """A sweep of two trials, each with defaults of its own branch."""
    run = create(storage, "toy")
    head = "recipe: 1\nname: toy\n"
    space = "sweep: {metric: val/loss, mode: min, space: {optimizer.lr: {uniform: [0, 1]}, model: {choice: []}}}\n"
    run.write("resolved.yaml", head + space)
    run.write("provenance.json", {"format": 1})
    run.write("result.json", {"format": 1, "status": "done"})
    for name, lines in BRANCHES.items():
        trial = Run(run.path / "trials" / name)
        trial.path.mkdir(parents=True)
        trial.write("resolved.yaml", head + lines)
        lr = 0.123456789 if name == "0001" else 0.5
        model = {"type": "mlp", "hidden": [8]} if name == "0001" else {"type": "linear"}
        trial.write("provenance.json", {"format": 1, "changes": {"model": model, "optimizer.lr": lr}})
        final = {"train/loss": 1.0 + lr, "test/accuracy": lr, "val/loss": 2.0 - lr}
        trial.write("result.json", {"format": 1, "status": "done", "final": final})
    return run.path


def test_what_a_sweep_varied_and_judged_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["compare", str(make_sweep(tmp_path)), "--out", str(tmp_path / "compare.html")]) == 0
    first = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:-1] if line.strip()]
    assert first[:5] == ["optimizer.lr", "model.type", "model.hidden", "optimizer.type", "model.dropout"]
    assert first[-3:] == ["val/loss", "train/loss", "test/accuracy"]


def test_rows_of_a_sweep_leave_out_what_belongs_to_one_branch_alone(tmp_path: Path) -> None:
    comparison = compare([Run(path) for path in sorted((make_sweep(tmp_path) / "trials").iterdir())])
    columns, left_out = turn(comparison, 60)
    assert [column.title for column in columns][:5] == ["run", "lr", "model.type", "hidden", "val/loss"]
    assert columns[1].cells == ["0.123457", "0.5"] and columns[3].cells == ["[8]", ""]
    assert {"model.dropout", "optimizer.amsgrad"} <= set(left_out)


def test_a_run_that_is_found_through_the_link_latest_too_is_listed_once(tmp_path: Path) -> None:
    words = [str(path) for path in sorted(make_sweep(tmp_path).parent.glob("*/trials/*"))]
    assert len(words) == 4 and [run.path.name for run in chosen(words, str(tmp_path))] == ["0001", "0002"]


def test_long_names_of_trials_are_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    folder = make_sweep(tmp_path)
    for name in BRANCHES:
        (folder / "trials" / name).rename(folder / "trials" / f"{name}-without_momentum_and_more")
    assert raycipe(["compare", str(folder), "--out", str(tmp_path / "compare.html")]) == 0
    assert "\n0002-without_momentum_and_more " in capsys.readouterr().out
