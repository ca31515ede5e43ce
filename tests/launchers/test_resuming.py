"""`launch --resume`: what is refused leaves the run as it was, and what ended a run can be lifted."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from raycipe.framework.runs import Run, create, find_all
from raycipe.launchers import cli

RECIPE = """\
recipe: 1
name: toy
data: digits
model: {type: mlp, hidden: [16]}
task: classification
optimizer: {type: sgd, lr: 0.05}
train: {steps: 60, batch_size: 64, log_every: 5, checkpoint_every: 20, eval_every: 20}
resources: {num_workers: 0}
"""


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    Path("toy.yaml").write_text(RECIPE)
    return lambda *words: cli.launch([*words, "-q"])


def only_run(storage: str = "runs") -> Run:
    (run,) = find_all(storage)
    return run


def test_a_refused_resume_leaves_the_run_as_it_was(launch: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert launch("toy.yaml") == 0
    run = only_run()
    before = {file: (run.path / file).read_bytes() for file in ("resolved.yaml", "provenance.json", "result.json")}
    assert launch("--resume", "toy", "train.steps=90", "resources.num_workers=64") == 2
    assert {file: (run.path / file).read_bytes() for file in before} == before
    assert launch("--resume", "toy", "train.steps=90") == 0
    assert run.resolved()["train"]["steps"] == 90 and run.read("result.json")["steps"] == 90
    assert "64" in capfd.readouterr().err


def test_a_resume_that_can_not_start_after_all_takes_back_what_it_wrote(
    launch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from raycipe.framework.errors import NotStarted
    from raycipe.launchers import train

    assert launch("toy.yaml") == 0
    before = {file: (only_run().path / file).read_bytes() for file in ("resolved.yaml", "provenance.json")}

    def run(recipe: Any, run_dir: str, *, prepare: Any, **given: Any) -> Any:
        prepare()
        assert Run(run_dir).resolved()["train"]["steps"] == 90
        raise NotStarted("resources", "the cluster has shrunk meanwhile")

    monkeypatch.setattr(train, "run", run)
    assert launch("--resume", "toy", "train.steps=90") == 2
    assert {file: (only_run().path / file).read_bytes() for file in before} == before


def test_a_run_in_use_is_looked_at_by_nobody_else(launch: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert launch("toy.yaml") == 0
    with only_run().lock():
        assert launch("--resume", "toy", "train.steps=90") == 2
    assert f"in use by process {os.getpid()}" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("ended_by", "lifted", "hint"),
    [
        ("train.minutes=1e-4", "train.minutes=null", "raise them, or set train.minutes=null"),
        (
            "train.early_stop={metric: val/loss, mode: max, patience: 1}",
            "train.early_stop=null",
            "raise train.early_stop.patience, or set train.early_stop=null",
        ),
    ],
)
def test_a_run_that_was_stopped_early_trains_on_to_the_numbers_of_a_long_one(
    launch: Any, ended_by: str, lifted: str, hint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert launch("toy.yaml", "--storage", "long", "train.steps=80") == 0
    assert launch("toy.yaml", ended_by) == 0
    run = only_run()
    assert run.read("result.json")["steps"] < 60
    assert launch("--resume", "toy", "train.steps=80") == 2
    assert hint in capfd.readouterr().err
    assert launch("--resume", "toy", "train.steps=80", lifted) == 0
    result = run.read("result.json")
    assert (result["steps"], result["stopped"]) == (80, None)
    assert result["final"]["val/loss"] == only_run("long").read("result.json")["final"]["val/loss"]


@pytest.mark.parametrize(("change", "said"), [("train.steps=40", "is at step 60"), ("train.steps=59", "asks for 59")])
def test_a_length_below_what_is_done_is_refused(
    launch: Any, change: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert launch("toy.yaml") == 0
    result = only_run().read("result.json")
    result["status"] = "interrupted"
    only_run().write("result.json", result)
    assert launch("--resume", "toy", change) == 2
    assert said in capfd.readouterr().err


def test_a_launch_that_was_killed_before_it_began_is_told_as_such(
    launch: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert launch("toy.yaml") == 0
    (only_run().path / "provenance.json").unlink()
    for words in (("--resume", "toy"), ("--resume", str(only_run())), ("toy.yaml", "--resume")):
        assert launch(*words) == 2
        assert "ended before the run had begun" in capfd.readouterr().err


def test_a_name_means_the_newest_run_that_has_begun(launch: Any) -> None:
    assert launch("toy.yaml") == 0
    good = only_run()
    killed = good.path.with_name(f"{good.path.name[:-4]}zzzz")
    killed.mkdir()
    assert launch("--resume", "toy", "train.steps=80") == 0
    assert good.read("result.json")["steps"] == 80 and list(killed.iterdir()) == []


def test_a_recipe_may_be_called_trials(launch: Any) -> None:
    Path("toy.yaml").write_text(RECIPE.replace("name: toy", "name: trials"))
    assert launch("toy.yaml") == 0
    result = only_run().read("result.json")
    assert (result["name"], result["run_id"]) == ("trials", only_run().path.name)
    assert launch("toy.yaml", "name=other", "start=trials", "train.steps=20") == 0


VANISHING = '''
@register
class Vanishing(Schedule):
    """A constant rate, and the end of every run folder after some steps."""

    def factor(self, step: int, total_steps: int) -> float:
        import pathlib
        import shutil

        if step == 25:
            for run in pathlib.Path("runs/toy").iterdir():
                run.unlink() if run.is_symlink() else shutil.rmtree(run)
        return 1.0
'''


def test_a_run_folder_that_vanishes_is_a_storage_error(
    launch: Any, lab: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = lab({"schedules/vanishing": VANISHING}, name="lab_that_vanishes")
    assert launch("toy.yaml", "optimizer.schedule=vanishing", "--components", str(folder)) == 1
    told = capfd.readouterr()
    assert "checkpoint at step 60 could not be written" in told.out and "result.json: can't write there" in told.out
    assert "Traceback" not in told.out + told.err and "--resume" not in told.out
    assert find_all("runs") == []


def test_a_result_that_can_not_be_written_fails_the_run_and_says_how_to_go_on(
    launch: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from raycipe.framework import runs

    def full(path: Path, content: Any, *more: Any) -> None:
        if path.name == "result.json":
            raise OSError(28, "No space left on device")
        written(path, content, *more)

    written = runs.write_atomic
    monkeypatch.setattr(runs, "write_atomic", full)
    assert launch("toy.yaml") == 1
    out = capfd.readouterr().out
    assert "result.json: can't write there: No space left on device" in out
    assert f"make room there, then resume with: launch --resume {only_run()}" in out
    monkeypatch.setattr(runs, "write_atomic", written)
    assert launch("--resume", str(only_run())) == 0


def test_lost_rows_are_told_when_a_run_is_resumed(launch: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert launch("toy.yaml") == 0
    shutil.copy(only_run().path / "metrics.jsonl", "kept.jsonl")
    (only_run().path / "metrics.jsonl").unlink()
    assert launch("--resume", "toy", "train.steps=80") == 0
    assert "warning: metrics.jsonl lacks 15 rows from before step 60" in capfd.readouterr().out
    assert [row["step"] for row in only_run().rows()] == [65, 70, 75, 80, 80, 80]


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ("test/f1", "nothing reports test/f1"),
        ("train/grad_norm", "nothing reports train/grad_norm"),
        ("max(val/accuracy)", None),
        ("train/lr", None),
        ("measure/parameter_count/total", None),
    ],
)
def test_a_claim_about_a_metric_that_is_not_reported_is_told_before_training(
    launch: Any, expected: str, said: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    from raycipe.framework.construct import construct
    from raycipe.framework.errors import RecipeError
    from raycipe.launchers.launch import checked

    Path("toy.yaml").write_text(f'{RECIPE}measures: [parameter_count]\nexpect: {{{expected}: ">= 0"}}\n')
    recipe = checked("toy.yaml")
    if said is None:
        construct(recipe.nodes.value, recipe.plain)
        return
    with pytest.raises(RecipeError, match=said):
        construct(recipe.nodes.value, recipe.plain)
    assert launch("toy.yaml") == 2
    assert f": expect.{expected}: {said}" in capfd.readouterr().err


FAILING = '''
@register
class Leaving(Measure):
    """Ends the process."""

    def measure(self, trained: Any) -> Measured:
        raise SystemExit(3)


@register
class Failing(Measure):
    """Fails."""

    def measure(self, trained: Any) -> Measured:
        raise ValueError("a mistake of its own")
'''


def test_a_measure_that_fails_or_leaves_loses_nothing_and_is_told_in_the_log(
    launch: Any, lab: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    leaving, failing = FAILING.split("\n\n\n")
    folder = lab({"measures/leaving": leaving, "measures/failing": failing}, name="lab_of_measures")
    assert launch("toy.yaml", "measures=[leaving, failing]", "--components", str(folder)) == 0
    result = only_run().read("result.json")
    assert [item["why"] for item in result["skipped"]] == ["SystemExit: 3", "ValueError: a mistake of its own"]
    told = capfd.readouterr()
    assert "Traceback" not in told.out + told.err
    assert (only_run().path / "log.txt").read_text().count("Traceback") == 2


MODEL = '''
@register
class {name}(Model):
    """A linear model.

    Args:
        inputs: features of an example
        outputs: classes
    """

    def __init__(
        self, inputs: Annotated[int, FromData("num_features")], outputs: Annotated[int, FromData("num_outputs")]
    ) -> None:
        super().__init__()
        {layer}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)
'''
LINEAR = "self.layer = torch.nn.Linear(inputs, outputs)"
STATEFUL = "\n\n    def get_extra_state(self) -> Any:\n        return {'seen': 1}"


@pytest.mark.parametrize(
    ("name", "layer", "said"),
    [
        ("Lazy", "self.layer = torch.nn.LazyLinear(outputs)", "weights whose shape is open until the first batch"),
        ("Frozen", f"{LINEAR}.requires_grad_(False)", "nothing to train: all its weights are frozen"),
        ("Stateful", LINEAR + STATEFUL, "state that is no tensor: _extra_state"),
    ],
)
def test_a_model_that_can_not_be_trained_or_saved_is_refused_before_training(
    launch: Any, lab: Any, name: str, layer: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    files = {f"models/{name.lower()}": MODEL.replace("{name}", name).replace("{layer}", layer)}
    folder = lab(files, name=f"lab_of_{name.lower()}")
    assert launch("toy.yaml", f"model={{type: {name.lower()}}}", "--components", str(folder)) == 2
    error = capfd.readouterr().err
    assert f"models/{name.lower()} has {said}" in error and "Traceback" not in error
    assert find_all("runs") == []


def test_minutes_are_looked_at_between_rows(launch: Any) -> None:
    assert launch("toy.yaml", "train.minutes=1e-5", "train.log_every=50") == 0
    result = only_run().read("result.json")
    assert (result["steps"], result["stopped"]) == (1, "minutes") and result["checkpoints"][-1]["step"] == 1


def test_a_misspelt_kind_folder_is_told_with_the_kind_that_was_meant(
    launch: Any, lab: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = lab({"modles/tiny": MODEL.replace("{name}", "Tiny").replace("{layer}", LINEAR)}, name="lab_misspelt")
    assert launch("toy.yaml", "model=tiny", "--components", str(folder)) == 2
    assert "it lies in no folder named as a kind: did you mean `models`?" in capfd.readouterr().err


AGENT = """\
recipe: 1
name: walk
env: {type: gymnasium, id: CartPole-v1}
agent: ppo
train: {env_steps: 2000}
"""


@pytest.mark.parametrize(
    ("stopped", "change", "refusal"),
    [
        (None, {"env_steps": 3000}, None),
        (None, {"env_steps": 2000}, "raise train.env_steps or train.iterations"),
        (None, {"env_steps": None, "iterations": 5}, None),
        ("until", {"env_steps": 9000}, "raise train.until.at_least, or set train.until=null"),
        ("until", {"until": None}, None),
    ],
)
def test_an_agents_finished_run_is_trained_on(
    stopped: str | None, change: dict[str, Any], refusal: str | None, tmp_path: Path
) -> None:
    from raycipe.framework.check import check
    from raycipe.framework.errors import RunError
    from raycipe.framework.recipe import load
    from raycipe.launchers import resuming

    (tmp_path / "walk.yaml").write_text(AGENT)
    plain = check(load(str(tmp_path / "walk.yaml"))).plain
    before = {**plain, "train": {**plain["train"], "until": {"metric": "rl/eval_return", "at_least": 9}}}
    run = create(tmp_path, "walk")
    run.write("resolved.yaml", json.dumps(before))
    run.write("provenance.json", {"format": 1})
    run.write("result.json", {"format": 1, "status": "done", "stopped": stopped, "steps": 2048})
    now = {**before, "train": {**before["train"], **change}}
    resuming.refuse_changes(run, now)
    if refusal is None:
        resuming.refuse_if_done(run, now)
    else:
        with pytest.raises(RunError) as caught:
            resuming.refuse_if_done(run, now)
        assert refusal in str(caught.value.hint)
