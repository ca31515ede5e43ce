"""Runs that start from another one: what that one has not, and files that its data can't read, are told at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raycipe.launchers import cli

DATA = "data: {type: csv, path: table.csv, target: y, target_type: class}\n"
ESTIMATOR = "estimator: {type: sklearn, name: GaussianNB}\nresources: {num_workers: 0}\n"


@pytest.fixture
def launch(tmp_path: Path, capsys: Any) -> Any:
    """`launch(text, name)` -> (exit code, number of runs of this name, output)."""
    lines = [f"{7 * i % 23},{5 * i % 11},{7 * i % 23 > 11:d}" for i in range(60)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")

    def go(text: str, name: str = "thing") -> tuple[int, int, str]:
        file = tmp_path / f"{name}.yaml"
        file.write_text(f"recipe: 1\nname: {name}\n{text}")
        code = cli.launch([str(file), "--storage", str(tmp_path / "runs")])
        told = capsys.readouterr()
        return code, len(list((tmp_path / "runs" / name).glob("2*"))), told.out + told.err

    return go


def test_what_a_fitted_estimator_has_not_is_refused(launch: Any, tmp_path: Path) -> None:
    assert launch(DATA + ESTIMATOR, "fitted")[0] == 0
    for text, words in {
        "start: fitted\neditor: {type: prune}\n": "thing.yaml:4:9: editor: edits a model's weights, and ",
        "start: {run: fitted, checkpoint: 7}\nmeasures: [calibration_error]\n": ("thing.yaml:3:34: start.checkpoint: "),
        "start: {run: fitted, checkpoint: all}\nmeasures: [calibration_error]\n": "it is fitted again from its recipe",
    }.items():
        code, runs, output = launch(text)
        assert code == 2 and runs == 0 and words in output, output
    (tmp_path / "short.csv").write_text("a\n1\n")
    (tmp_path / "latin.csv").write_bytes("a,b,name\n1,2,x\n1,2,café\n".encode("latin-1"))
    for text, words in {
        "{path: short.csv}": "short.csv: has no column `b`\n    its columns: a",
        "{path: latin.csv}": "latin.csv: line 3 is not UTF-8",
        "{path: table.csv, columns: [nope]}": "predict.columns: ",
    }.items():
        code, runs, output = launch(f"start: fitted\npredict: {text}\n")
        assert code == 2 and runs == 0 and words in output and "thing.yaml:4:" in output, output


def test_a_start_at_a_study_or_at_data_without_columns_is_refused(launch: Any) -> None:
    study = "study: {type: repeat, metric: test/accuracy, seeds: 1}\n"
    assert launch("data: digits\n" + ESTIMATOR + study, "studied")[0] == 0
    code, runs, output = launch("start: studied\nmeasures: [calibration_error]\n")
    assert code == 2 and runs == 0
    assert "thing.yaml:3:8: start: " in output and "is a study: it has no model of its own" in output
    code, runs, output = launch("data: digits\n" + ESTIMATOR, "fitted")
    code, runs, output = launch("start: fitted\npredict: {path: table.csv}\n")
    assert code == 2 and runs == 0 and "data/digits makes no features of a table's rows" in output


def test_an_estimator_is_fitted_anew_whatever_a_start_says(launch: Any) -> None:
    code, _, output = launch("start: somewhere\n" + DATA + ESTIMATOR)
    assert code == 2 and "estimator: can't stand beside `start`" in output
