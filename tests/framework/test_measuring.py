"""Measures after training: values, files, and what could not run."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.measuring import run_measures


class Full(Measure):
    def measure(self, trained: Trained) -> Measured:
        def draw() -> Any:
            from matplotlib.figure import Figure

            figure = Figure()
            figure.add_subplot().plot([1, 2], [3, 4])
            return figure

        return Measured(
            values={"ece": 0.25},
            figures={"reliability_curve": draw},
            tables={"bins": [{"bin": 1, "share": float("nan"), "edges": [0.0, 0.5]}]},
            text={"note": "all is well\n"},
        )


class Needy(Measure):
    needs = ("model", "estimator")

    def measure(self, trained: Trained) -> Measured:
        raise AssertionError("must not be called")


class Reluctant(Measure):
    def measure(self, trained: Trained) -> Measured:
        raise Skipped("the data has no classes")


class Broken(Measure):
    def measure(self, trained: Trained) -> Measured:
        return Measured(values={"one": 1 / 0})


@pytest.fixture
def measures(monkeypatch: Any) -> None:
    classes = {"full": Full, "needy": Needy, "reluctant": Reluctant, "broken": Broken}
    build = lambda section, kind, path, facts: classes[section["type"]]()  # noqa: E731
    monkeypatch.setattr("raycipe.framework.measuring.build", build)


def run(folder: Path, *types: str) -> Any:
    said: list[str] = []
    trained = Trained(recipe={}, model=nn.Linear(1, 1))
    found = run_measures(trained, {"measures": [{"type": type_} for type_ in types]}, folder, said.append)
    return found, said


def test_values_and_files_are_named_after_the_measure(measures: None, tmp_path: Path) -> None:
    found, _ = run(tmp_path, "full", "full")
    assert found.values == {"measure/full/ece": 0.25, "measure/full_2/ece": 0.25}
    assert found.artifacts[:3] == [
        {"path": "artifacts/full-reliability_curve.svg", "kind": "plot", "title": "full: reliability curve"},
        {"path": "artifacts/full-bins.csv", "kind": "table", "title": "full: bins"},
        {"path": "artifacts/full-note.txt", "kind": "text", "title": "full: note"},
    ]
    assert (tmp_path / "artifacts" / "full-reliability_curve.svg").read_text().startswith("<?xml")
    rows = list(csv.reader((tmp_path / "artifacts" / "full-bins.csv").open()))
    assert rows == [["bin", "share", "edges"], ["1", "NaN", "[0.0, 0.5]"]]
    assert (tmp_path / "artifacts" / "full-note.txt").read_text() == "all is well\n"


def test_a_measure_that_cannot_run_or_fails_is_recorded_and_the_others_run(measures: None, tmp_path: Path) -> None:
    found, said = run(tmp_path, "needy", "reluctant", "broken", "full")
    assert found.skipped == [
        {"component": "measures/needy", "why": "it needs `estimator`, which this run does not have"},
        {"component": "measures/reluctant", "why": "the data has no classes"},
        {"component": "measures/broken", "why": "ZeroDivisionError: division by zero"},
    ]
    assert found.values == {"measure/full/ece": 0.25}
    assert len(said) == 1 and said[0].startswith("measures/broken failed:\nTraceback")


def test_a_figure_is_the_same_file_in_every_run(measures: None, tmp_path: Path) -> None:
    run(tmp_path / "a", "full")
    run(tmp_path / "b", "full")
    name = "artifacts/full-reliability_curve.svg"
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
