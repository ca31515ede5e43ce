"""Studies: here and on Ray, with failures, a killed process, a killed driver, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from raycipe.framework.runs import Run, trials
from raycipe.launchers import cli, fan_out

TRAINED = """
data: digits
model: {type: mlp, hidden: [16]}
task: classification
optimizer: {type: adam, lr: 0.01}
train: {epochs: 1}
"""
REPEAT = "study: {type: repeat, metric: test/accuracy, seeds: 2, compare: {optimizer: [sgd, adam]}}\n"
HERE = "resources: {num_workers: 0}\n"


def finals(run: Run | None) -> dict[str, dict[str, Any]]:
    assert run is not None
    return {trial.path.name: trial.read("result.json")["final"] for trial in trials(run)}


def final(run: Run | None) -> dict[str, Any]:
    assert run is not None
    found: dict[str, Any] = run.read("result.json")["final"]
    return found


def test_a_study_gives_runs_of_their_own_a_table_a_plot_and_a_claim(launch: Any) -> None:
    code, run, _ = launch(TRAINED + HERE + REPEAT + "expect: {study/repeat/adam/mean: '>= 0.15'}\n")
    assert code == 0
    accuracies = [values["test/accuracy"] for values in finals(run).values()]
    assert len(accuracies) == 4 and list(finals(run)) == [
        "000-sgd-seed0",
        "001-sgd-seed1",
        "002-adam-seed0",
        "003-adam-seed1",
    ]
    found = final(run)
    assert found["study/repeat/adam/mean"] == pytest.approx(sum(accuracies[2:]) / 2)
    assert found["study/repeat/sgd-adam/difference"] == pytest.approx(sum(accuracies[:2]) / 2 - sum(accuracies[2:]) / 2)
    rows = parquet.read_table(run.artifacts / "repeat-runs.parquet").to_pylist()
    assert [row["test/accuracy"] for row in rows] == accuracies and rows[3]["variant"] == "adam"
    assert (run.artifacts / "repeat-runs.csv").exists() and (run.artifacts / "repeat-spread.svg").exists()
    assert not any(run.checkpoints.iterdir()), "the recipe itself was trained"
    assert trials(run)[2].read("provenance.json")["changes"] == {"optimizer": "adam", "seed": 0}


def test_a_variation_is_the_same_run_as_a_launch_of_it(launch: Any) -> None:
    _, run, _ = launch(TRAINED + HERE + REPEAT)
    alone = final(launch(TRAINED + HERE, "optimizer=sgd", "seed=1", name="alone")[1])
    assert finals(run)["001-sgd-seed1"]["test/loss"] == alone["test/loss"]


@pytest.mark.ray
def test_ray_gives_the_same_numbers_as_this_process(launch: Any, ray_session: Any) -> None:
    here = finals(launch(TRAINED + HERE + REPEAT)[1])
    code, run, output = launch(TRAINED + REPEAT, name="there")
    assert code == 0 and "4 of 4 runs to do, 2 at a time" in output
    assert finals(run) == here


@pytest.mark.slow
@pytest.mark.ray
def test_runs_with_several_workers_are_placed_beside_their_task(launch: Any, ray_session: Any) -> None:
    study = "study: {type: repeat, metric: test/accuracy, seeds: 2}\nresources: {num_workers: 2}\n"
    code, run, output = launch(TRAINED + study)
    assert code == 0, output
    assert [trial.read("result.json")["status"] for trial in trials(run)] == ["done", "done"]
    code, run, output = launch(TRAINED + study.replace("num_workers: 2", "num_workers: 8"), name="large")
    assert code == 2 and run is None and "8 workers with 1 CPU each ask for 8" in output


@pytest.mark.slow
@pytest.mark.ray
def test_a_study_over_an_agent_repeats_its_training(launch: Any, ray_session: Any) -> None:
    agent = """
env: {type: point_goal, show_goal: true}
model: {type: mlp, hidden: [16], activation: tanh, num_outputs: 16}
agent: {type: ppo, train_batch_size: 256, num_envs_per_env_runner: 8}
train: {env_steps: 512, eval_episodes: 2}
study: {type: repeat, metric: rl/eval_return, seeds: 2}
"""
    code, run, output = launch(agent)
    assert code == 0, output
    first, second = (values["rl/eval_return"] for values in finals(run).values())
    assert first != second
    assert final(run)["study/repeat/mean"] == pytest.approx((first + second) / 2)


def test_a_study_over_an_estimator_needs_no_training(launch: Any) -> None:
    text = "data: breast_cancer\nestimator: {type: sklearn, name: LogisticRegression, arguments: {C: 1}}\n" + HERE
    study = "study: {type: grid, metric: test/accuracy, over: {estimator.arguments.C: [0.001, 1.0]}}\n"
    code, run, _ = launch(text + study)
    found = final(run)
    assert code == 0
    assert found["study/grid/highest"] - found["study/grid/lowest"] == found["study/grid/estimator.arguments.C/range"]
    assert found["study/grid/1/mean"] > found["study/grid/0.001/mean"]


def test_failed_runs_are_told_left_out_and_tried_again(launch: Any, lab: Any, tmp_path: Path) -> None:
    lab({"estimators/moody": FAILING.format(mark=tmp_path / "good")})
    text = "data: breast_cancer\nestimator: {type: moody, level: 0}\n" + HERE
    text += "study: {type: grid, metric: test/accuracy, over: {estimator.level: [0, 1, 2]}}\n"
    code, run, output = launch(text)
    assert code == 1
    assert "warning: run 001-1-seed0 failed: RuntimeError: not today" in output
    assert "error: 1 of 3 runs failed; 001-1-seed0: RuntimeError: not today" in output
    found = final(run)
    assert found["study/grid/missing"] == 1 and "study/grid/1/mean" not in found and "study/grid/2/mean" in found
    before = {trial.path.name: trial.read("provenance.json")["finished"] for trial in trials(run)}
    (tmp_path / "good").touch()
    assert (
        cli.launch(["--resume", str(run), "--storage", str(tmp_path / "runs"), "--components", str(tmp_path / "lab")])
        == 0
    )
    assert final(run)["study/grid/missing"] == 0
    attempts = {trial.path.name: len(trial.read("provenance.json")["attempts"]) for trial in trials(run)}
    assert attempts == {"000-0-seed0": 1, "001-1-seed0": 2, "002-2-seed0": 1} and len(before) == 3


FAILING = """
from pathlib import Path
from raycipe.framework.contracts import Estimator


@register
class Moody(Estimator):
    def __init__(self, level: int):
        self.level = level

    def fit(self, X, y=None, **roles):
        if self.level == 1 and not Path("{mark}").exists():
            raise RuntimeError("not today")
        return self

    def predict(self, X):
        return (X[:, 0] < 0).astype("int64")
"""


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (
            "{type: grid, metric: test/accuracy, over: {optimizer.rate: [1, 2]}}",
            "study.over.optimizer.rate: no argument has this path",
        ),
        (
            "{type: grid, metric: test/accuracy, over: {optimizer.lr: [0.1, -1]}}",
            "study.over.optimizer.lr: choice 2: must be a number >= 0, not -1",
        ),
        ("{type: grid, metric: test/accuracy, over: {optimizer.lr: 0.1}}", "must be a list of values to try, not 0.1"),
        ("{type: grid, metric: test/accuracy, over: {seed: [1, 2]}}", "`seed` is varied by the study itself"),
        ("{type: grid, metric: test/accuracy, over: {study.seeds: [1]}}", "`study.seeds` can't be varied"),
        ("{type: grid, metric: test/acuracy, over: {optimizer.lr: [1]}}", "did you mean `test/accuracy`?"),
        (
            "{type: ablation, metric: test/accuracy, parts: {rate: {optimizer.lr: -1}}}",
            "study.parts.rate.optimizer.lr: must be a number >= 0, not -1",
        ),
        (
            "{type: ablation, metric: test/accuracy, parts: {net: {model: null}}}",
            "study: run 005-without_net-seed0: task: needs `model` or `start`",
        ),
        ("{type: ablation, metric: test/accuracy, parts: {full: {optimizer.lr: 1}}}", "names must differ"),
        (
            "{type: ablation, metric: test/accuracy, parts: {a: {}}}",
            "study.parts.a: must be a map of dotted path and value, not an empty one",
        ),
        (
            "{type: ablation, metric: test/accuracy, parts: {all: {task: null, optimizer: null, train: null}}}",
            "study: run 005-without_all-seed0: nothing to run: needs one of",
        ),
        (
            "{type: grid, metric: test/accuracy, over: {optimizer.lr: [1.0, 0.5, 1]}}",
            "study.over.optimizer.lr: choice 3 is choice 1 again: 1",
        ),
        (
            "{type: repeat, metric: test/accuracy, compare: {optimizer: [{type: sgd, lr: 1}, {lr: 1.0, type: sgd}]}}",
            "study.compare.optimizer: choice 2 is choice 1 again",
        ),
        ("{type: repeat, metric: test/accuracy, seeds: [1, 1]}", "study.seeds: one stands twice"),
        (
            "{type: repeat, metric: test/accuracy, compare: {optimizer.lr: [1], model: [mlp]}}",
            "study.compare: takes one path, not 2: for combinations use `type: grid`",
        ),
    ],
)
def test_a_wrong_study_is_refused_before_anything_runs(launch: Any, study: str, words: str) -> None:
    code, run, output = launch(TRAINED + f"study: {study}\n")
    assert code == 2 and run is None and words in output, output
    assert "thing.yaml:9:" in output and "Traceback" not in output


def test_values_that_have_one_label_are_refused(launch: Any) -> None:
    text = "data: breast_cancer\nestimator: {type: sklearn, name: SVC, arguments: {kernel: rbf}}\n"
    study = "study: {type: repeat, metric: test/accuracy, compare: {estimator.arguments.kernel: [rbf, _rbf]}}\n"
    code, run, output = launch(text + study)
    assert code == 2 and run is None and "thing.yaml:5:55: study.compare: " in output, output
    assert "two values can't be told apart: rbf, _rbf" in output and "Traceback" not in output


@pytest.mark.parametrize("file", ["result.json", "provenance.json"])
def test_a_run_whose_account_is_damaged_is_run_again(launch: Any, tmp_path: Path, file: str) -> None:
    text = "data: breast_cancer\nestimator: {type: sklearn, name: GaussianNB}\n" + HERE
    _, run, _ = launch(text + "study: {type: repeat, metric: test/accuracy, seeds: 2}\n")
    before, kept = finals(run), (trials(run)[1].path / "result.json").stat().st_mtime_ns
    (trials(run)[0].path / file).write_text('{"status": "do')
    run.write("result.json", {**run.read("result.json"), "status": "interrupted"})
    assert cli.launch(["--resume", str(run), "--storage", str(tmp_path / "runs")]) == 0
    assert finals(run) == before and (trials(run)[0].path / f"damaged-{file}").exists()
    assert (trials(run)[1].path / "result.json").stat().st_mtime_ns == kept


def test_a_claim_about_a_run_is_none_about_the_study(launch: Any) -> None:
    code, _, output = launch(TRAINED + REPEAT + "expect: {test/accuracy: '> 0.5'}\n")
    assert code == 2
    assert "expect.test/accuracy: a study does not report `test/accuracy`: each of its runs does" in output
    assert "claim what the study finds: study/repeat/...; `raycipe show studies/repeat` lists the names" in output
    code, _, output = launch(TRAINED + REPEAT + "expect: {study/repeat/adam/meen: '> 0.5'}\n")
    assert code == 2 and "did you mean `study/repeat/adam/mean`?" in output


# ---------------------------------------------------------------------------------------------- lost processes


@pytest.mark.ray
def test_a_part_whose_process_is_killed_runs_again(ray_session: Any, tmp_path: Path) -> None:
    options = {"num_cpus": 1, "max_retries": 2, "retry_exceptions": False}
    ended: list[int] = []
    found = fan_out.fan_out(
        work_module(),
        tmp_path,
        [0, 1, 2, 3],
        fan_out.Places(2, options),
        on_end=lambda number, result: ended.append(number),
    )
    assert found == [0, 1, 4, 9] and sorted(ended) == [0, 1, 2, 3] and (tmp_path / "2").exists()


@pytest.mark.ray
def test_a_part_that_is_lost_for_good_is_told(ray_session: Any, tmp_path: Path) -> None:
    options = {"num_cpus": 1, "max_retries": 0, "retry_exceptions": False}
    told = fan_out.fan_out(
        work_module(), tmp_path, [1, 2], fan_out.Places(2, options), on_lost=lambda number, what: f"{number} {what}"
    )
    assert told[0] == 1 and told[1].startswith("1 ") and "died" in told[1]


def work_module() -> Any:
    """By value: Ray's workers can't import test files."""
    source = {"os": os, "signal": signal}

    def run(shared: Path, item: int) -> int:
        mark = shared / str(item)
        if item == 2 and not mark.exists():
            mark.touch()
            source["os"].kill(source["os"].getpid(), source["signal"].SIGKILL)
        return item * item

    return run


def test_a_wish_to_stop_ends_after_the_part_that_runs() -> None:
    ended: list[int] = []
    with pytest.raises(fan_out.Stopped):
        fan_out.fan_out(
            lambda shared, item: item,
            None,
            [1, 2, 3],
            fan_out.Places(0),
            on_end=lambda number, result: ended.append(number),
            is_stopped=lambda: len(ended) == 2,
        )
    assert ended == [0, 1]


def test_a_killed_study_resumes_with_what_is_left(launch: Any, tmp_path: Path) -> None:
    whole = finals(launch(TRAINED + HERE + REPEAT)[1])
    (tmp_path / "killed.yaml").write_text(f"recipe: 1\nname: killed\n{TRAINED}{HERE}{REPEAT}")
    command = [sys.executable, "-c", "import sys; from raycipe.launchers.cli import launch; sys.exit(launch())"]
    storage = ["--storage", str(tmp_path / "runs")]
    process = subprocess.Popen([*command, str(tmp_path / "killed.yaml"), *storage], stdout=subprocess.DEVNULL)
    wait_for(lambda: len(list((tmp_path / "runs" / "killed").glob("2*/trials/*/result.json"))) >= 1, process)
    process.kill()
    process.wait()
    (run,) = [Run(path) for path in (tmp_path / "runs" / "killed").glob("2*")]
    assert run.status() == "killed"
    first = (run.path / "trials" / "000-sgd-seed0" / "result.json").stat().st_mtime_ns
    assert cli.launch(["--resume", str(run), *storage]) == 0
    assert finals(run) == whole
    assert (run.path / "trials" / "000-sgd-seed0" / "result.json").stat().st_mtime_ns == first


def test_ctrl_c_saves_and_a_resume_ends_the_study(launch: Any, tmp_path: Path) -> None:
    text = TRAINED.replace("epochs: 1", "epochs: 300, checkpoint_every: 1") + HERE
    (tmp_path / "stopped.yaml").write_text(
        f"recipe: 1\nname: stopped\n{text}study: {{type: repeat, metric: test/accuracy, seeds: 2}}\n"
    )
    command = [sys.executable, "-c", "import sys; from raycipe.launchers.cli import launch; sys.exit(launch())"]
    storage = ["--storage", str(tmp_path / "runs")]
    process = subprocess.Popen([*command, str(tmp_path / "stopped.yaml"), *storage], stdout=subprocess.DEVNULL)
    there = (tmp_path / "runs" / "stopped").glob
    wait_for(lambda: any(there("2*/trials/000-seed0/checkpoints/step-*")), process)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    (run,) = [Run(path) for path in there("2*")]
    assert run.status() == "interrupted" and len(trials(run)) == 1
    assert trials(run)[0].read("result.json")["status"] == "interrupted"


def wait_for(holds: Any, process: Any, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert process.poll() is None, "the launch ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---------------------------------------------------------------------------------------------- runs that tell nothing

MUTE = """
from raycipe.framework.contracts import Estimator, Measured


@register
class Mute(Estimator):
    def __init__(self, level: int):
        self.level = level

    def fit(self, X, y=None, **roles):
        return self

    def predict(self, X):
        return (X[:, 0] < 0).astype("int64")

    def evidence(self):
        return Measured(values={} if self.level == 2 else {"gain": 0.5 if self.level == 0 else float("nan")})
"""


def test_runs_without_a_number_are_missing_and_a_study_of_them_fails(launch: Any, lab: Any) -> None:
    lab({"estimators/mute": MUTE})
    text = "data: breast_cancer\nestimator: {type: mute, level: 0}\n" + HERE
    grid = "study: {{type: grid, metric: estimator/gain, over: {{estimator.level: {}}}}}\n"
    code, run, output = launch(text + grid.format("[0, 1]"))
    found = final(run)
    assert code == 0 and found["study/grid/missing"] == 1 and found["study/grid/highest"] == 0.5, output
    assert "warning: 1 run ended without a number for estimator/gain: 001-1-seed0" in output
    repeat = "study: {type: repeat, metric: estimator/gain, seeds: 2, compare: {estimator.level: [0, 1]}}\n"
    found = final(launch(text + repeat, name="repeated")[1])
    assert found["study/repeat/0/mean"] == 0.5 and "study/repeat/0/low" in found and found["study/repeat/missing"] == 2
    code, run, output = launch(text + grid.format("[1, 2]"), name="silent")
    assert code == 1 and "error: study.metric: no run reports estimator/gain" in output
    assert "000-1-seed0 reports " in output and "test/accuracy" in output.partition("000-1-seed0 reports ")[2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("study: {type: repeat, metric: test/rmse}", "study.metric: nothing reports test/rmse"),
        ("study: {type: repeat, metric: study/repeat/mean}", "study.metric: `study/repeat/mean` is what a study finds"),
        ("expect: {test/r2: '> 0'}", "expect.test/r2: nothing reports test/r2"),
    ],
)
def test_a_score_that_the_estimator_has_not_is_told_before_anything_runs(launch: Any, text: str, words: str) -> None:
    code, run, output = launch(f"data: breast_cancer\nestimator: {{type: sklearn, name: GaussianNB}}\n{HERE}{text}\n")
    assert code == 2 and run is None and words in output and "thing.yaml:6:" in output, output
