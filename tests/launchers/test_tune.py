"""`launch --sweep` on the shared Ray: trials, schedulers, failures, resuming, what is left behind."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from raycipe.framework.runs import Run, trials
from raycipe.launchers.cli import launch, raycipe

pytestmark = pytest.mark.ray

RECIPE = """
recipe: 1
name: tuned
data: {type: digits}
model: {type: mlp, hidden: [16]}
task: classification
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 2, batch_size: 128}
resources: {num_workers: 0}
sweep:
  space: {optimizer.lr: {loguniform: [1e-3, 1.0]}}
  metric: val/loss
  mode: min
"""


class Sweep:
    """Launches sweeps into a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "recipe.yaml"
        self.file.write_text(RECIPE)

    def __call__(self, *words: str, space: str = "") -> tuple[int, Run]:
        if space:
            self.file.write_text(RECIPE.replace("{optimizer.lr: {loguniform: [1e-3, 1.0]}}", space))
        code = launch([str(self.file), "--sweep", "--storage", str(self.folder / "runs"), *words])
        return code, Run(max((self.folder / "runs" / "tuned").glob("2*"), key=lambda path: path.stat().st_mtime_ns))


@pytest.fixture
def sweep(tmp_path: Path, ray_session: Any) -> Sweep:
    return Sweep(tmp_path)


def results(run: Run) -> dict[str, dict[str, Any]]:
    return {trial.path.name: trial.read("result.json") for trial in trials(run)}


def test_a_sweep_leaves_trials_a_table_a_page_and_a_recipe_that_repeats_the_best_bit_for_bit(
    sweep: Sweep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, run = sweep("sweep.trials=3")
    assert code == 0
    found = results(run)
    assert list(found) == ["0001", "0002", "0003"]
    best = min(found, key=lambda name: found[name]["final"]["val/loss"])
    whole = run.read("result.json")
    assert whole["final"] == found[best]["final"] and whole["trials"] == {"done": 3, "best": best}
    with (run.path / "trials.csv").open() as file:
        rows = {row["trial"]: row for row in csv.DictReader(file)}
    changes = Run(run.path / "trials" / best).read("provenance.json")["changes"]
    assert float(rows[best]["optimizer.lr"]) == changes["optimizer.lr"]
    page = (run.path / "sweep.html").read_text()
    assert best in page and "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")
    assert "./sweep.html" in (run.path / "report.html").read_text()
    assert not (run.path / ".ray").exists()
    capsys.readouterr()

    assert launch([str(run.path / "best.yaml"), "--storage", str(tmp_path / "again"), "-q"]) == 0
    again = next((tmp_path / "again" / "tuned").glob("2*"))
    assert json.loads((again / "result.json").read_text())["final"] == found[best]["final"]
    rows_of = [
        [{k: v for k, v in row.items() if k not in ("seconds", "attempt")} for row in Run(path).rows()]
        for path in (again, run.path / "trials" / best)
    ]
    assert rows_of[0] == rows_of[1]
    capsys.readouterr()
    assert raycipe(["compare", str(run), "--storage", str(tmp_path)]) == 0
    assert "0003" in capsys.readouterr().out


def test_a_resumed_sweep_runs_only_what_has_not_ended_with_the_values_of_an_unbroken_one(sweep: Sweep) -> None:
    _, run = sweep("sweep.concurrent=1", "sweep.trials=3", "train.checkpoint_every=1")
    before = results(run)
    shutil.rmtree(run.path / "trials" / "0003")  # as if the driver had been killed before it began
    lost = run.path / "trials" / "0002"
    (lost / "result.json").unlink()
    shutil.rmtree(lost / "checkpoints" / "step-00000018")
    (run.path / "result.json").unlink()
    untouched = (run.path / "trials" / "0001" / "result.json").stat().st_mtime_ns
    assert launch(["--resume", str(run)]) == 0
    after = results(run)
    assert (run.path / "trials" / "0001" / "result.json").stat().st_mtime_ns == untouched
    assert {name: entry["final"] for name, entry in after.items()} == {
        name: entry["final"] for name, entry in before.items()
    }
    attempts = Run(lost).read("provenance.json")["attempts"]
    assert [attempt["how"] for attempt in attempts] == ["done", "done"] and attempts[1]["resumed_from"] is not None


def test_a_resumed_sweep_may_get_more_trials_but_no_other_length_or_space(
    sweep: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run = sweep("sweep.trials=1", "train.epochs=1")
    first = results(run)["0001"]["final"]
    shutil.copytree(run.path / "trials" / "0001", run.path / "trials" / "0001-copy")  # somebody looked at it there
    for words, told in (
        ([], "is done\n    for more trials raise sweep.trials in the same command"),
        (["train.epochs=3"], "the recipe has changed since\n    train.epochs: 1 -> 3"),
        (["sweep.space={optimizer.lr: [0.1]}"], "the recipe has changed since\n    sweep.space"),
    ):
        capsys.readouterr()
        assert launch(["--resume", str(run), *words]) == 2
        assert told in capsys.readouterr().err
    assert launch(["--resume", str(run), "sweep.trials=2", "--check"]) == 0
    assert capsys.readouterr().out == f"{run}: can be resumed\n" and "0002" not in results(run)
    assert launch(["--resume", str(run), "sweep.trials=2"]) == 0
    assert results(run)["0001"]["final"] == first and results(run)["0002"]["status"] == "done"
    assert "trials: 2" in (run.path / "written.yaml").read_text()


def test_optuna_is_asked_for_a_trial_when_earlier_ones_have_ended(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna")
    from raycipe.launchers.tune_search import Study

    told: list[tuple[int, int]] = []
    ask = Study.ask

    def asked(study: Any, number: int) -> Any:
        told.append((number, len(study.study.get_trials(states=[study.optuna.trial.TrialState.COMPLETE]))))
        return ask(study, number)

    monkeypatch.setattr(Study, "ask", asked)
    code, _ = sweep("sweep.trials=5", "sweep.concurrent=1", "sweep.search=optuna", "train.epochs=1")
    assert code == 0 and [number for number, _ in told] == [1, 2, 3, 4, 5]
    assert all(known >= number - 2 for number, known in told), told  # one waits while one runs


def test_values_that_do_not_fit_each_other_are_told_before_anything_starts(
    sweep: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep.file.write_text(
        RECIPE.replace("lr: 0.1}", "lr: 0.1, momentum: 0}").replace(
            "{optimizer.lr: {loguniform: [1e-3, 1.0]}}",
            "{optimizer.type: {grid: [sgd, adam]}, optimizer.momentum: {grid: [0, 0.9]}}",
        )
    )
    assert launch([str(sweep.file), "--sweep", "--storage", str(sweep.folder / "runs")]) == 2
    told = capsys.readouterr().err
    assert "sweep.space: trial 0003 (optimizer.type=adam, optimizer.momentum=0): optimizer.momentum: unknown" in told
    assert not (sweep.folder / "runs" / "tuned").exists() or not list((sweep.folder / "runs" / "tuned").glob("2*"))


def test_an_estimators_own_rules_are_asked_for_every_value(sweep: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    sweep.file.write_text("""
recipe: 1
name: tuned
data: breast_cancer
estimator: {type: sklearn, name: DecisionTreeClassifier, arguments: {max_leaf_nodes: 5}}
sweep:
  space: {estimator.arguments.max_leaf_nodes: {randint: [1, 50]}}
  trials: 2
  metric: val/loss
  mode: min
""")
    assert launch([str(sweep.file), "--sweep", "--storage", str(sweep.folder / "runs")]) == 2
    assert "7:58: sweep.space.estimator.arguments.max_leaf_nodes: " in capsys.readouterr().err


def test_a_failing_trial_is_told_at_once_and_the_others_go_on(sweep: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    code, run = sweep(space="{train.batch_size: {grid: [64, 100000, 128]}}")
    told = capsys.readouterr().out
    found = results(run)
    assert code == 1
    assert [entry["status"] for entry in found.values()] == ["done", "failed", "done"]
    assert "trial 0002 failed (train.batch_size=100000): " in told
    whole = run.read("result.json")
    assert whole["error"]["trial"] == "0002" and "1 of 3 trials failed" in whole["error"]["message"]
    assert whole["trials"]["best"] in ("0001", "0003") and (run.path / "best.yaml").exists()


def test_a_diverged_trial_is_a_finding_and_no_failure(sweep: Sweep) -> None:
    code, run = sweep(space="{optimizer.lr: {grid: [0.1, 1e20]}}")
    assert code == 0
    assert run.read("result.json")["trials"] == {"done": 1, "diverged": 1, "best": "0001"}


def test_asha_stops_poor_trials_early_and_they_are_done(sweep: Sweep) -> None:
    scheduler = "sweep.scheduler={type: asha, grace_period: 1, reduction_factor: 2}"
    code, run = sweep(
        "sweep.concurrent=1", scheduler, "train.epochs=3", space="{optimizer.lr: {grid: [0.3, 0.2, 1e-6, 1e-5]}}"
    )
    found = results(run)
    assert code == 0
    stopped = {name for name, entry in found.items() if entry["stopped"] == "asha"}
    assert {"0003", "0004"} <= stopped and "0001" not in stopped
    assert all(found[name]["status"] == "done" and "test/loss" not in found[name]["final"] for name in stopped)
    assert "test/loss" in found["0001"]["final"]


def test_a_killed_trial_process_is_started_again(sweep: Sweep, lab: Any, tmp_path: Path) -> None:
    mark = tmp_path / "died"
    folder = lab(
        {
            "schedules/deadly": f"""
import os
from pathlib import Path
@register
class Deadly(Schedule):
    '''Ends its process in the middle of the first run.'''
    def factor(self, step: int, total: int) -> float:
        mark = Path({str(mark)!r})
        if step == 12 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return 1.0
"""
        },
        add=False,
    )
    code, run = sweep(
        "sweep.trials=1", "optimizer.schedule=deadly", "train.checkpoint_every=1", "--components", str(folder)
    )
    assert code == 0 and mark.exists()
    attempts = Run(run.path / "trials" / "0001").read("provenance.json")["attempts"]
    assert [attempt["how"] for attempt in attempts] == ["killed", "done"]
    assert attempts[1]["resumed_from"] == 9  # the checkpoint of the first epoch


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["resources.num_workers=3", "train.batch_size=192"],
            "one trial of the sweep asks for 3 workers with 1 CPUs each ask for 3",
        ),
        (["sweep.scheduler=pbt", "resources.num_workers=2"], "pbt puts trials down and takes them up again"),
        (
            ["sweep.scheduler=asha", "train.epochs=null", "train.steps=40"],
            "the number of evaluations of a trial is not known",
        ),
        (["sweep.scheduler=asha", "sweep.metric=test/loss"], "test/loss is known only at the end"),
        (["sweep.scheduler=pbt", "sweep.search=optuna"], "pbt finds its values itself"),
    ],
)
def test_what_can_never_run_is_refused_at_once(
    sweep: Sweep, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch([str(sweep.file), "--sweep", "--storage", str(sweep.folder / "runs"), *words, "sweep.trials=2"]) == 2
    assert told in capsys.readouterr().err
    assert not list((sweep.folder / "runs").glob("tuned/2*"))


@pytest.mark.slow
def test_estimators_and_agents_are_swept_too(sweep: Sweep) -> None:
    estimator = """
recipe: 1
name: tuned
data: {type: digits}
estimator: {type: sklearn, name: LogisticRegression}
sweep:
  space: {estimator.arguments: [{C: 1.0e-3, max_iter: 200}, {C: 1.0, max_iter: 200}]}
  metric: val/loss
  mode: min
  search: grid
"""
    agent = """
recipe: 1
name: tuned
env: {type: point_goal, show_goal: true}
model: {type: mlp, hidden: [16], activation: tanh, num_outputs: 16}
agent: {type: ppo, lr: 2e-3, train_batch_size: 256, num_envs_per_env_runner: 8}
train: {env_steps: 512, eval_episodes: 2}
sweep:
  space: {agent.lr: [1e-3, 3e-3]}
  metric: rl/eval_return
  mode: max
  search: grid
"""
    for text in (estimator, agent):
        sweep.file.write_text(text)
        code, run = sweep()
        assert code == 0 and run.read("result.json")["trials"]["done"] == 2


@pytest.mark.slow
def test_trials_with_two_workers_on_two_cpus_do_not_wait_for_ever_and_are_stopped_early(sweep: Sweep) -> None:
    scheduler = "sweep.scheduler={type: asha, reduction_factor: 2}"
    code, run = sweep(
        "train.epochs=4", "resources.num_workers=2", scheduler, space="{optimizer.lr: {grid: [0.3, 1e-6]}}"
    )
    assert code == 0 and [entry["status"] for entry in results(run).values()] == ["done", "done"]
