"""Whole sweeps on the shared Ray: the schedulers that need several trials, several objectives, retries, minutes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from raycipe.framework.runs import Run, trials
from raycipe.launchers.cli import launch

pytestmark = pytest.mark.ray
ROOT = Path(__file__).parents[2]

RECIPE = """
recipe: 1
name: tuned
data: {type: digits}
model: {type: mlp, hidden: [16]}
task: classification
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 3, batch_size: 128}
resources: {num_workers: 0}
sweep:
  space: SPACE
  metric: val/loss
  mode: min
"""
RATES = "{optimizer.lr: {loguniform: [1e-3, 1.0]}}"


class Sweep:
    """Launches sweeps into a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "recipe.yaml"

    def __call__(self, *words: str, space: str = RATES, text: str = RECIPE) -> tuple[int, Run]:
        self.file.write_text(text.replace("SPACE", space))
        code = launch([str(self.file), "--sweep", "-q", "--storage", str(self.folder / "runs"), *words])
        return code, Run(max((self.folder / "runs" / "tuned").glob("2*"), key=lambda path: path.stat().st_mtime_ns))


@pytest.fixture
def sweep(tmp_path: Path, ray_session: Any) -> Sweep:
    return Sweep(tmp_path)


def stopped(run: Run) -> dict[str, str | None]:
    return {trial.path.name: trial.read("result.json")["stopped"] for trial in trials(run)}


def test_the_median_rule_stops_a_trial_that_is_worse_than_the_others(sweep: Sweep) -> None:
    words = ["sweep.concurrent=1", "train.epochs=2", "sweep.scheduler={type: median, grace_period: 1}"]
    code, run = sweep(*words, space="{optimizer.lr: {grid: [0.3, 0.2, 0.1, 1e-6]}}")
    assert code == 0
    assert stopped(run) == {"0001": None, "0002": None, "0003": None, "0004": "median"}


@pytest.mark.slow
def test_hyperband_lets_the_best_of_a_bracket_go_on(sweep: Sweep) -> None:
    # of three evaluations: the first bracket holds two trials that run to their end, the second three: one of them does
    rates = "[0.1, 0.2, 1e-6, 0.3, 1e-5]"
    code, run = sweep("sweep.scheduler=hyperband", space=f"{{optimizer.lr: {{grid: {rates}}}}}")
    assert code == 0
    ends = {"0001": None, "0002": None, "0003": "hyperband", "0004": None, "0005": "hyperband"}
    assert stopped(run) == ends
    whole = run.read("result.json")
    assert whole["trials"]["best"] == "0004" and "test/loss" in whole["final"]


@pytest.mark.slow
def test_population_based_training_takes_over_the_weights_of_the_better_trial(sweep: Sweep) -> None:
    words = ["sweep.scheduler={type: pbt, interval: 1}", "train.keep=10"]
    code, run = sweep(*words, space="{optimizer.lr: {grid: [0.3, 1e-6]}}")
    assert code == 0
    poor, good = Run(run.path / "trials" / "0002"), Run(run.path / "trials" / "0001")
    taken = poor.read("lineage.json")["taken"]
    assert taken and taken[0] == {"from": "0001", "step": 9} and not (good.path / "lineage.json").exists()
    step = f"step-{taken[-1]['step']:08d}"  # an earlier one was replaced with all that came after it
    poor_weights, good_weights = ((t.checkpoints / step / "model.safetensors").read_bytes() for t in (poor, good))
    assert poor_weights == good_weights
    assert [trial.read("result.json")["steps"] for trial in (poor, good)] == [27, 27]


def test_a_failed_trial_is_run_again_as_often_as_the_sweep_allows(sweep: Sweep, lab: Any, tmp_path: Path) -> None:
    folder = lab(
        {
            "schedules/flaky": f"""
from pathlib import Path
@register
class Flaky(Schedule):
    '''Raises in the middle of the first run.'''
    def factor(self, step: int, total: int) -> float:
        mark = Path({str(tmp_path / "failed")!r})
        if step == 12 and not mark.exists():
            mark.touch()
            raise RuntimeError("out of luck")
        return 1.0
"""
        },
        add=False,
    )
    words = ["sweep.trials=1", "optimizer.schedule=flaky", "sweep.max_failures=1", "--components", str(folder)]
    code, run = sweep(*words)
    assert code == 0 and (tmp_path / "failed").exists()
    attempts = Run(run.path / "trials" / "0001").read("provenance.json")["attempts"]
    assert [attempt["how"] for attempt in attempts] == ["failed", "done"]


@pytest.mark.slow
def test_no_trial_starts_when_the_minutes_are_over(sweep: Sweep) -> None:
    code, run = sweep("sweep.minutes=0.03", "sweep.trials=500", "sweep.concurrent=1")
    whole = run.read("result.json")
    assert code == 0 and whole["stopped"] == "minutes" and whole["status"] == "done"
    assert 1 <= whole["trials"]["done"] == len(trials(run)) < 500


def test_several_objectives_give_a_front_a_table_and_a_picture(sweep: Sweep) -> None:
    text = RECIPE.replace("  metric: val/loss\n  mode: min\n", "  objectives: {val/loss: min, val/accuracy: max}\n")
    code, run = sweep("sweep.trials=5", "sweep.search=optuna", "train.epochs=1", text=text)
    assert code == 0 and run.read("result.json")["trials"]["done"] == 5
    asked = json.loads((run.path / "search.json").read_text())["asked"]
    assert sorted(asked) == ["1", "2", "3", "4", "5"]
    table = pd.read_parquet(run.path / "trials.parquet")
    assert list(table["trial"]) == ["0001", "0002", "0003", "0004", "0005"]
    for trial in trials(run):
        row = table[table["trial"] == trial.path.name].iloc[0]
        assert row["optimizer.lr"] == trial.read("provenance.json")["changes"]["optimizer.lr"]
        assert row["val/accuracy"] == trial.read("result.json")["final"]["val/accuracy"]
    page = (run.path / "sweep.html").read_text()
    assert "<h2>Several objectives</h2>" in page and page.count("<svg") >= 2


def test_a_missing_optuna_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    file = tmp_path / "recipe.yaml"
    file.write_text(RECIPE.replace("SPACE", RATES))
    assert launch([str(file), "--sweep", "--storage", str(tmp_path), "sweep.trials=2", "sweep.search=optuna"]) == 2
    assert "pip install 'raycipe[search]'" in capsys.readouterr().err


@pytest.mark.slow
def test_the_packaged_sweep_runs_at_its_smallest_size(tmp_path: Path, ray_session: Any) -> None:
    words = ["--profile", "smoke", "--sweep", "-q", "--storage", str(tmp_path)]
    assert launch([str(ROOT / "recipes" / "sweeps" / "sweep_digits.yaml"), *words]) == 0
    run = Run(next(tmp_path.glob("sweep_digits/2*")))
    assert run.read("result.json")["trials"]["done"] == 2
