"""`launch` from end to end, in the launching process: exit codes, run folder, resume, reproduce."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raycipe.framework import plugins
from raycipe.framework.runs import Run, find_all
from raycipe.launchers import cli

RECIPE = """\
recipe: 1
name: toy
data: digits
model: {type: mlp, hidden: [16]}
task: classification
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
train: {epochs: 2, batch_size: 64, log_every: 5}
measures: [parameter_count, confusion_matrix]
resources: {num_workers: 0}
expect: {test/accuracy: ">= 0.5"}
profiles:
  smoke: {train: {epochs: 1}}
"""


FLAT = '''
@register
class Flat(Schedule):
    """A constant rate."""

    def factor(self, step: int, total_steps: int) -> float:
        return 1.0
'''


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "toy.yaml"
    path.write_text(RECIPE)
    return path


def only_run() -> Run:
    (run,) = find_all("runs")
    return run


def test_a_launch_leaves_a_complete_run_folder(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.launch(["toy.yaml", "--note", "first"]) == 0
    run = only_run()
    result, provenance = run.read("result.json"), run.read("provenance.json")
    assert result["status"] == "done" and result["exit_code"] == 0 and result["steps"] == 38
    assert result["expect"][0]["verdict"] == "met" and result["final"]["test/accuracy"] >= 0.5
    assert result["final"]["measure/parameter_count/total"] == 64 * 16 + 16 + 16 * 10 + 10
    assert {item["kind"] for item in result["artifacts"]} >= {"plot"}
    assert all((run.path / item["path"]).exists() for item in result["artifacts"])
    assert provenance["note"] == "first" and provenance["command"][0] == "launch"
    assert [attempt["how"] for attempt in provenance["attempts"]] == ["done"]
    assert (run.path / "recipe.yaml").read_text() == RECIPE
    assert list((run.path / "tensorboard").glob("events.out.tfevents.*"))
    assert "met" in (run.path / "report.html").read_text()
    out = capfd.readouterr().out
    assert "test/accuracy >= 0.5" in out and str(run.path) in out


def test_the_plan_shows_the_datas_note(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{i},{'red' if i % 3 else 'blue'},{'' if i == 4 else i % 2}\n" for i in range(31))
    Path("table.csv").write_text("x,color,y\n" + rows)
    recipe.write_text(RECIPE.replace("data: digits", "data: {type: csv, path: table.csv, target: y}"))
    assert cli.launch(["toy.yaml", "data.one_hot=true", "data.missing=drop", "train.batch_size=7"]) in (0, 3)
    said = " ".join(capfd.readouterr().out.split())
    assert "21 train, 3 val, 6 test examples; 3 features from 2 columns, 1 row dropped" in said


def test_an_unmet_expectation_exits_with_3(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.launch(["toy.yaml", "train.epochs=1", 'expect.test/accuracy=">= 0.999"', "-q"]) == 3
    assert only_run().read("result.json")["expect"][0]["verdict"] == "unmet"
    assert "unmet" in capfd.readouterr().out


def test_a_missing_metric_exits_with_3_and_names_near_ones(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = RECIPE.replace("epochs: 2", "epochs: 1").replace("{test/accuracy:", "{comm/accuracy:")
    recipe.write_text(text)
    assert cli.launch(["toy.yaml", "-q"]) == 3
    assert only_run().read("result.json")["expect"][0]["verdict"] == "missing"


def test_the_smoke_profile_judges_presence_alone(recipe: Path) -> None:
    assert cli.launch(["toy.yaml", "--profile", "smoke", 'expect.test/accuracy=">= 0.999"', "-q"]) == 0
    assert only_run().read("result.json")["expect"][0]["verdict"] == "skipped"


def test_a_wrong_recipe_exits_with_2_and_leaves_nothing(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recipe.write_text(RECIPE.replace("momentum", "momentm").replace("epochs: 2", "epochs: 0"))
    assert cli.launch(["toy.yaml"]) == 2
    error = capfd.readouterr().err
    assert "toy.yaml:6:" in error and "did you mean `momentum`" in error
    assert "toy.yaml:7:" in error and "2 mistakes" in error and "Traceback" not in error
    assert not Path("runs").exists()


def test_a_constructors_complaint_is_located_and_leaves_nothing(
    recipe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.launch(["toy.yaml", "optimizer.nesterov=true", "optimizer.momentum=0"]) == 2
    error = capfd.readouterr().err
    assert "optimizer.nesterov" in error and "momentum" in error and "Traceback" not in error
    assert find_all("runs") == []


@pytest.mark.parametrize(
    ("override", "path", "text"),
    [
        ("train.batch_size=4000", "train.batch_size", "has only 1258"),
        ("train.precision=fp16", "train.precision", "fp16 is for GPUs"),
        (
            "resources={num_workers: 1, cpus_per_worker: 999}",
            "resources.cpus_per_worker",
            "1 worker with 999 CPUs each ask for 999",
        ),
        ("resources.gpus_per_worker=64", "resources.gpus_per_worker", "torch sees none here"),
        ("start=nothing", "start", "nothing: no such run"),
        ("train.evaluate_weights=ema", "train.evaluate_weights", "needs `train.ema`"),
    ],
)
def test_what_cannot_start_exits_with_2_names_its_place_and_leaves_nothing(
    override: str, path: str, text: str, recipe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.launch(["toy.yaml", override, "train.epochs=1"]) == 2
    error = capfd.readouterr().err
    assert f" {path}: " in error and text in error and "Traceback" not in error
    assert find_all("runs") == []


def test_own_components_must_be_named_again_to_resume(
    recipe: Path, lab: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = lab({"schedules/flat": FLAT}, name="lab_of_launch")
    words = ["toy.yaml", "-q", "optimizer.schedule=flat"]
    assert cli.launch([*words, "--components", str(folder)]) == 0
    plugin = only_run().read("provenance.json")["plugins"][0]
    assert plugin["folder"] == str(folder) and len(plugin["sha256"]) == 64
    plugins._added.clear()
    assert cli.launch(["--resume", "toy", "train.epochs=3"]) == 2
    assert f"was launched with --components {folder}" in capfd.readouterr().err


def test_check_says_where_every_value_comes_from(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.launch(["toy.yaml", "--check", "-v", "--profile", "smoke", "optimizer.lr=0.3"]) == 0
    lines = {line.split()[0]: line for line in capfd.readouterr().out.splitlines()}
    assert "override" in lines["optimizer.lr"] and "toy.yaml:6:28" in lines["optimizer.lr"]
    assert "profile smoke" in lines["train.epochs"]
    assert "default of optimizers/sgd" in lines["optimizer.weight_decay"]


def test_a_finished_run_reproduces_bit_for_bit(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.launch(["toy.yaml", "-q"]) == 0
    assert cli.raycipe(["reproduce", "toy", "-q"]) == 0
    assert "reproduced bit for bit" in capfd.readouterr().out
    assert len(find_all("runs")) == 2


def test_a_finished_run_trains_on_to_the_numbers_of_a_long_one(recipe: Path) -> None:
    assert cli.launch(["toy.yaml", "-q", "--storage", "long", "train.epochs=3"]) == 0
    assert cli.launch(["toy.yaml", "-q"]) == 0
    run = only_run()
    assert cli.launch(["--resume", str(run), "train.epochs=3", "-q"]) == 0
    (long,) = find_all("long")
    assert run.read("result.json")["final"] == long.read("result.json")["final"]
    losses = [[(row["step"], row["val/loss"]) for row in each.rows() if "val/loss" in row] for each in (run, long)]
    assert losses[0] == losses[1]
    attempts = run.read("provenance.json")["attempts"]
    assert [attempt["how"] for attempt in attempts] == ["done", "done"] and attempts[1]["resumed_from"] == 38


def test_a_changed_recipe_is_not_resumed(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.launch(["toy.yaml", "-q"]) == 0
    assert cli.launch(["toy.yaml", "--resume", "optimizer.lr=0.2", "train.epochs=3"]) == 2
    error = capfd.readouterr().err
    assert "the recipe has changed since" in error and "optimizer.lr: 0.1 -> 0.2" in error


def test_a_finished_run_is_not_resumed_by_accident(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.launch(["toy.yaml", "-q"]) == 0
    assert cli.launch(["toy.yaml", "--resume"]) == 2
    assert "is done" in capfd.readouterr().err


def test_resuming_without_a_run_says_so(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.launch(["toy.yaml", "--resume"]) == 2
    assert "no run of toy" in capfd.readouterr().err


def test_runs_compare_diff_and_report_work_on_real_runs(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.launch(["toy.yaml", "-q"]) == 0
    assert cli.launch(["toy.yaml", "-q", "optimizer.lr=0.2"]) == 0
    first, second = find_all("runs")
    capfd.readouterr()
    assert cli.raycipe(["runs", "--format", "json"]) == 0
    listed = json.loads(capfd.readouterr().out)
    assert [item["status"] for item in listed] == ["done", "done"] and listed[0]["verdicts"] == "1 met"
    assert cli.raycipe(["compare", str(first), str(second)]) == 0
    assert "optimizer.lr" in capfd.readouterr().out and Path("runs/compare.html").exists()
    assert cli.raycipe(["diff", str(first), str(second)]) == 1
    assert capfd.readouterr().out.endswith("\noptimizer.lr: 0.1 -> 0.2\n")
    assert cli.raycipe(["diff", "toy.yaml", str(first)]) == 0
    assert cli.raycipe(["report", str(first)]) == 0


def test_a_nan_loss_exits_with_1_and_names_the_step(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.launch(["toy.yaml", "optimizer.lr=1e30", "-q"]) == 1
    result = only_run().read("result.json")
    assert result["status"] == "failed" and result["error"]["type"] == "nonfinite" and result["error"]["step"] >= 1
    out = capfd.readouterr()
    assert "Traceback" not in out.out + out.err and "log.txt" in out.out


def test_a_missing_data_file_exits_with_2(recipe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recipe.write_text(RECIPE.replace("data: digits", "data: {type: csv, path: gone.csv, target: y}"))
    assert cli.launch(["toy.yaml"]) == 2
    assert "no such file" in capfd.readouterr().err
