"""Estimators: what a resume takes over, and what is told before anything is fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raycipe.framework.runs import Run
from raycipe.launchers import cli

FOLDED = """
data: {type: csv, path: table.csv, target: y, target_type: class, val: 0}
estimator: {type: sklearn, name: LogisticRegression, folds: 3}
resources: {num_workers: 0}
"""


@pytest.fixture
def launch(tmp_path: Path, capsys: Any) -> Any:
    """`launch(text, "key=value")` or `launch("--resume", RUN)` -> (exit code, newest run, output)."""

    def go(text: str, *words: str) -> tuple[int, Run | None, str]:
        file = tmp_path / "thing.yaml"
        if text != "--resume":
            file.write_text(f"recipe: 1\nname: thing\n{text}")
        command = [text if text == "--resume" else str(file), *words, "--data-root", str(tmp_path)]
        code = cli.launch([*command, "--storage", str(tmp_path / "runs")])
        told = capsys.readouterr()
        runs = sorted((tmp_path / "runs" / "thing").glob("2*"))
        return code, Run(runs[-1]) if runs else None, told.out + told.err

    return go


def write_table(file: Path, rows: int = 60, shift: int = 0) -> None:
    lines = [f"{(7 * i + shift) % 23},{(5 * i) % 11},{(7 * i) % 23 > 11:d}" for i in range(rows)]
    file.write_text("\n".join(["a,b,y", *lines]) + "\n")


def final(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = run.read("result.json")["final"]
    return found


def interrupt(run: Run) -> None:
    """As if the launch had been stopped: what has ended stays recorded."""
    run.write("result.json", {**run.read("result.json"), "status": "interrupted"})


# ---------------------------------------------------------------------------------------------- resume


def test_a_resume_with_other_data_is_refused_and_goes_on_with_the_old(launch: Any, tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv")
    code, run, output = launch(FOLDED)
    assert code == 0, output
    before = final(run)
    interrupt(run)
    write_table(tmp_path / "table.csv", shift=1)
    code, _, output = launch("--resume", str(run))
    assert code == 1 and "can't resume: the data has changed since (test: x" in output
    assert "bring the old data back, or launch a new run" in output and "Traceback" not in output
    write_table(tmp_path / "table.csv")
    code, _, output = launch("--resume", str(run))
    assert code == 0 and final(run) == before, output


def test_a_study_resumed_with_other_data_is_refused(launch: Any, tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv")
    _, run, _ = launch(FOLDED + "study: {type: repeat, metric: test/accuracy, seeds: 2}\n")
    interrupt(run)
    write_table(tmp_path / "table.csv", rows=61)
    code, _, output = launch("--resume", str(run))
    assert code == 1 and "can't resume: the data has changed since" in output


def test_folds_with_damaged_files_are_fitted_again(launch: Any, tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv")
    _, run, _ = launch(FOLDED)
    before = final(run)
    for fold, content in enumerate(('{"accuracy": 0.', "[]", "{}")):
        (run.path / "units" / f"fold-{fold:04d}.json").write_text(content)
    interrupt(run)
    code, _, output = launch("--resume", str(run))
    assert code == 0 and final(run) == before and "estimator/cv_f1_sd" in before, output
    assert output.count("damaged; what it held is computed again") == 3
    assert f"warning: {run}/units/fold-0000.json: damaged" in output


# ---------------------------------------------------------------------------------------------- before the fit


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        ("{type: sklearn, name: GaussianNB, folds: 100}", "estimator.folds: 100 folds of 9 examples"),
        ("{type: sklearn, name: GaussianNB, folds: 8}", "estimator.folds: 8 folds, and the rarest class has "),
        (
            "{type: stacking, parts: 1000, estimators: [SVM, SVM], final: SVM}",
            "estimator.parts: 1000 parts of 9 training examples",
        ),
        (
            "{type: stacking, parts: 9, folds: 2, estimators: [SVM, SVM], final: SVM}",
            "estimator.parts: 9 parts of 4 training examples, without one of 2 folds",
        ),
    ],
)
def test_more_parts_than_examples_are_refused(launch: Any, tmp_path: Path, estimator: str, words: str) -> None:
    write_table(tmp_path / "table.csv", rows=12)
    text = FOLDED.replace("val: 0", "val: 0, test: 0.25").replace(
        "{type: sklearn, name: LogisticRegression, folds: 3}", estimator
    )
    code, run, output = launch(text.replace("SVM", "{type: sklearn, name: SVC}"))
    assert code == 2 and run is None and words in output and "thing.yaml:5:" in output, output


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        ("breast_cancer", "Ridge", "take a classifier, e.g. RidgeClassifier"),
        ("breast_cancer", "Lasso", "take a classifier, e.g. LogisticRegression"),
        ("breast_cancer", "SVR", "take a classifier, e.g. SVC"),
        ("diabetes", "LogisticRegression", "take a regressor, e.g. Ridge"),
        ("diabetes", "LinearSVC", "take a regressor, e.g. LinearSVR"),
        ("diabetes", "RandomForestClassifier", "take a regressor, e.g. RandomForestRegressor"),
    ],
)
def test_the_other_kind_of_target_is_told_with_an_estimator_for_it(
    launch: Any, data: str, name: str, words: str
) -> None:
    code, run, output = launch(f"data: {data}\nestimator: {{type: sklearn, name: {name}}}\n")
    assert code == 2 and run is None and words in output and "`task" not in output, output


def test_a_name_without_its_ending_is_told_with_both_that_it_may_have(launch: Any) -> None:
    code, _, output = launch("data: breast_cancer\nestimator: {type: sklearn, name: HistGradientBosting}\n")
    assert code == 2
    assert "did you mean `HistGradientBoostingClassifier` or `HistGradientBoostingRegressor`?" in output
