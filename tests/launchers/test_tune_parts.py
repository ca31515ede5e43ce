"""The parts of a sweep without Ray's cluster: Optuna's search, exploring and taking over, schedulers' memory, slots."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from raycipe.framework.check import check
from raycipe.framework.errors import NotStarted
from raycipe.framework.recipe import load
from raycipe.framework.runs import Run, checkpoint_steps, create_trial
from raycipe.launchers import trial, tune_schedulers
from raycipe.launchers.launch import write_recipe
from raycipe.launchers.trial import Base, LeftTraining, run_trial
from raycipe.launchers.tune_schedulers import SCORE, TIME, WORST, explored, replay, score
from raycipe.launchers.tune_search import Plan, name_of
from raycipe.launchers.tune_slots import Slots, refuse_trial
from raycipe.launchers.tune_trial import POINTER, take_over

RECIPE = """
recipe: 1
name: parts
data: {type: digits}
model: {type: mlp, hidden: [8]}
task: classification
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
train: {epochs: 2, batch_size: 256}
resources: {num_workers: 0}
sweep:
  space: {optimizer.lr: {loguniform: [1e-3, 1.0]}}
  metric: val/loss
  mode: min
  trials: 20
"""


@pytest.fixture
def base(tmp_path: Path) -> Base:
    """A sweep's run folder whose trials can be run."""
    file = tmp_path / "recipe.yaml"
    file.write_text(RECIPE)
    run = Run(tmp_path / "run")
    run.path.mkdir()
    write_recipe(run, check(load(str(file))))
    run.write("provenance.json", {"format": 1, "recipe_hash": "0", "packages": {}})
    return Base(str(run))


# ------------------------------------------------------------------------------------------------ search


def ended(plan: Plan, number: int, **final: float) -> None:
    run = create_trial(plan.run, name_of(number))
    run.write("provenance.json", {"format": 1, "changes": plan.changes(number)})
    run.write("result.json", {"format": 1, "status": "done", "final": final, "steps": 10})


def sweep_section(**changes: Any) -> dict[str, Any]:
    space = {"a": {"uniform": [-1.0, 1.0]}, "b": {"choice": [{"type": "x", "c": {"randint": [1, 3]}}, "y"]}}
    one = {"space": space, "metric": "val/loss", "mode": "min", "trials": 30, "search": "optuna", "scheduler": "none"}
    return {**one, **changes}


def search(plan: Plan, numbers: range, told: bool = True) -> list[dict[str, Any]]:
    found = []
    for number in numbers:
        changes = plan.changes(number)
        ended(plan, number, **{"val/loss": (changes["a"] - 0.5) ** 2})
        if told:
            assert plan.study is not None
            plan.study.tell(number, stopped=False)
        found.append(changes)
    return found


def test_optuna_looks_where_it_was_good(tmp_path: Path) -> None:
    found = search(Plan(Run(tmp_path), sweep_section(trials=50), 0), range(1, 51))
    early = np.median([abs(entry["a"] - 0.5) for entry in found[:10]])
    late = np.median([abs(entry["a"] - 0.5) for entry in found[20:]])
    assert late < early / 2
    assert {str(type(entry["b"])) for entry in found} == {"<class 'dict'>", "<class 'str'>"}
    assert all(entry["b"] == "y" or entry["b"]["c"] in (1, 2, 3) for entry in found)


def test_a_resumed_optuna_search_asks_what_an_unbroken_one_asks(tmp_path: Path) -> None:
    unbroken = (
        search(Plan(Run(tmp_path / "a"), sweep_section(), 0), range(1, 16)) if (tmp_path / "a").mkdir() is None else []
    )
    (tmp_path / "b").mkdir()
    search(Plan(Run(tmp_path / "b"), sweep_section(), 0), range(1, 13))
    again = Plan(Run(tmp_path / "b"), sweep_section(), 0)
    assert again.open[0] == 13
    assert search(again, range(13, 16)) == unbroken[12:]


def test_an_open_trial_keeps_the_values_that_it_was_begun_with(tmp_path: Path) -> None:
    run = create_trial(Run(tmp_path), "0002")
    run.write("provenance.json", {"format": 1, "changes": {"a": 0.125, "b": "y"}})
    plan = Plan(Run(tmp_path), sweep_section(search="random", trials=3), 0)
    assert plan.open == [2, 1, 3] and plan.changes(2) == {"a": 0.125, "b": "y"}


def test_failed_trials_and_several_objectives_are_told_to_optuna(tmp_path: Path) -> None:
    goals = {"val/loss": "min", "val/accuracy": "max"}
    section = {key: value for key, value in sweep_section(objectives=goals).items() if key not in ("metric", "mode")}
    plan = Plan(Run(tmp_path), section, 0)
    assert plan.study is not None
    for number, final in enumerate([{"val/loss": 1.0, "val/accuracy": 0.5}, {"val/loss": 1.0}], 1):
        ended(plan, number, **final)
        plan.study.tell(number, stopped=False)
    states = [trial.state.name for trial in plan.study.study.trials]
    assert states == ["COMPLETE", "FAIL"]


def test_the_live_table_shows_every_objective_of_an_ended_trial(tmp_path: Path) -> None:
    from raycipe.launchers.tune_board import Board

    goals = {"val/loss": "min", "val/accuracy": "max"}
    section = {**sweep_section(search="random", trials=3), "objectives": goals}
    plan = Plan(Run(tmp_path), {key: value for key, value in section.items() if key not in ("metric", "mode")}, 0)
    ended(plan, 1, **{"val/loss": 0.25, "val/accuracy": 0.75})
    ended(plan, 2, **{"val/loss": 0.5})
    board: Any = Board(Plan(Run(tmp_path), plan.sweep, 0), None, lambda text: None)
    console = Console(width=100, file=io.StringIO())
    console.print(board.table(100))
    head, titles, first, second = console.file.getvalue().splitlines()[:4]
    assert "best val/loss 0.25 (trial 0001)" in head and titles.split()[:4] == ["trial", "state", *goals]
    assert first.split()[:4] == ["0001", "done", "0.25", "0.75"] and second.split()[:3] == ["0002", "done", "0.5"]


# ------------------------------------------------------------------------------------------------ schedulers


def test_values_that_are_not_finite_are_the_worst() -> None:
    assert score(0.5, "min") == -0.5 and score(0.5, "max") == 0.5
    assert score(float("nan"), "min") == score(float("-inf"), "min") == score(None, "max") == WORST


def test_exploring_moves_numbers_by_a_fifth_within_their_ends_and_entries_to_a_neighbour() -> None:
    space = {"optimizer.lr": {"loguniform": [0.01, 0.1]}, "optimizer.k": {"randint": [1, 9]}, "task.w": [1, 2, 4]}
    generator, seen = np.random.default_rng(0), []
    for _ in range(300):
        seen.append(explored(space, {"optimizer.lr": 0.09, "optimizer.k": 2, "task.w": 2}, generator))
    rates = [entry["optimizer.lr"] for entry in seen]
    assert all(0.01 <= rate <= 0.1 for rate in rates)
    assert 0.09 * 0.8 in rates and 0.1 in rates  # 0.108 is cut to the end
    moved = [rate for rate in rates if rate in (0.09 * 0.8, 0.1)]
    assert abs(len(moved) / 300 - 0.75) < 0.12
    assert {entry["task.w"] for entry in seen} == {1, 2, 4} and {1, 3} <= {entry["optimizer.k"] for entry in seen}


@pytest.mark.parametrize("name", ["asha", "median"])
def test_a_new_scheduler_knows_the_trials_of_an_earlier_attempt(name: str) -> None:
    section = {"scheduler": name, "space": {}}
    found = tune_schedulers.settings(section, {"epochs": 8})
    scheduler = tune_schedulers.build({**found, "grace_period": 1}, section, np.random.default_rng(0))
    replay(scheduler, name, {str(n): [(1, -0.1), (2, -0.1)] for n in range(4)})

    class New:
        trial_id = "new"

    trial = New()
    scheduler.on_trial_add(None, trial)
    assert scheduler.on_trial_result(None, trial, {TIME: 1, SCORE: -5.0}) == "STOP"
    fresh = tune_schedulers.build({**found, "grace_period": 1}, section, np.random.default_rng(0))
    fresh.on_trial_add(None, trial)
    assert fresh.on_trial_result(None, trial, {TIME: 1, SCORE: -5.0}) == "CONTINUE"


def test_a_trial_that_takes_over_goes_on_from_the_better_weights_with_its_own_rate(base: Base) -> None:
    run_trial(base, "0001", {"optimizer.lr": 0.3}, pauses=True)
    donor, mine = (create_trial(Run(base.run_dir), name) for name in ("0001", "0002"))
    step = max(donor.checkpoints.glob("step-*"), key=lambda path: path.name)
    half = min(donor.checkpoints.glob("step-*"), key=lambda path: path.name)
    assert half != step
    copied = mine.path / ".donor"
    (copied / half.name).mkdir(parents=True)
    for file in half.iterdir():
        (copied / half.name / file.name).write_bytes(file.read_bytes())
    (copied / POINTER).write_text('{"number": 1}')
    take_over(mine, copied)
    seen: dict[str, Any] = {}

    def look(session: Any, event: str) -> None:
        if event == "start":
            group = session.optimizer.param_groups[0]
            seen["lr"], seen["momentum"], seen["step"] = group["lr"], group["momentum"], session.step
            seen["weights"] = {name: tensor.clone() for name, tensor in session.model.state_dict().items()}

    result = run_trial(base, "0002", {"optimizer.lr": 0.25}, hooks=[look], took_over=True)
    assert result["status"] == "done" and seen["step"] == int(half.name.partition("-")[2]) > 0
    assert seen["lr"] == 0.25 and seen["momentum"] == 0.9
    weights = load_file(half / "model.safetensors")
    assert all(torch.equal(weights[name], tensor) for name, tensor in seen["weights"].items())
    assert mine.read("lineage.json")["taken"] == [{"from": "0001", "step": seen["step"]}]


@pytest.mark.parametrize(("stopped", "status"), [("asha", "done"), (None, "interrupted")])
def test_a_hook_ends_a_trial_for_good_or_puts_it_down(base: Base, stopped: str | None, status: str) -> None:
    def leave(session: Any, event: str) -> None:
        if event == "checkpoint" and session.step < session.length.total_steps:
            raise LeftTraining(stopped)

    whole = run_trial(base, "0001", {"optimizer.lr": 0.3})
    first = run_trial(base, "0002", {"optimizer.lr": 0.3}, hooks=[leave], pauses=True)
    assert (first["status"], first["stopped"]) == (status, stopped) and "test/loss" not in first["final"]
    second = run_trial(base, "0002", {"optimizer.lr": 0.3})
    assert second["final"] == (first["final"] if stopped else whole["final"])
    assert not list(Path(base.run_dir).glob("trials/0002/progress.json"))


def saved_at(base: Base, name: str) -> list[int]:
    return checkpoint_steps(create_trial(Run(base.run_dir), name))


def test_a_short_trial_saves_at_its_end_alone_unless_it_is_told_when(base: Base) -> None:
    rare = run_trial(base, "0001", {"optimizer.lr": 0.3})
    often = run_trial(base, "0002", {"optimizer.lr": 0.3, "train.checkpoint_every": 1})
    assert saved_at(base, "0001") == [8] and saved_at(base, "0002") == [4, 8]
    assert rare["final"] == often["final"]
    assert trial.spacing({"measures": [{"type": "path_norm"}]}) == 0.0  # it may look at each of them


def test_a_long_trial_saves_between_as_well(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SPACING_S", 1e-9)
    run_trial(base, "0001", {"optimizer.lr": 0.3})
    assert saved_at(base, "0001") == [4, 8]


def test_a_trial_without_a_checkpoint_starts_again_and_one_that_is_stopped_leaves_one(base: Base) -> None:
    def fail(session: Any, event: str) -> None:
        if event == "evaluate":
            raise RuntimeError("now")

    def stop(session: Any, event: str) -> None:
        if event == "evaluate":
            session.stopped = "user"

    whole = run_trial(base, "0001", {"optimizer.lr": 0.3})
    assert run_trial(base, "0002", {"optimizer.lr": 0.3}, hooks=[fail])["status"] == "failed"
    assert saved_at(base, "0002") == []
    again = run_trial(base, "0002", {"optimizer.lr": 0.3})
    rows = list(create_trial(Run(base.run_dir), "0002").rows())
    assert again["final"] == whole["final"] and [row["step"] for row in rows].count(4) == 1
    assert run_trial(base, "0003", {"optimizer.lr": 0.3}, hooks=[stop])["status"] == "interrupted"
    assert saved_at(base, "0003") == [4]
    assert run_trial(base, "0003", {"optimizer.lr": 0.3})["final"] == whole["final"]


# ------------------------------------------------------------------------------------------------ slots


def resources(**changes: Any) -> dict[str, Any]:
    return {"task": "classification", "resources": {"cpus_per_worker": 1, "gpus_per_worker": 0, **changes}}


def test_places_are_counted_from_the_cluster_and_a_trials_workers() -> None:
    there = {"CPU": 9.0, "GPU": 2.0}
    assert Slots(resources(num_workers=0), "none").places(there, None) == 9
    assert Slots(resources(num_workers=4), "none").places(there, None) == 2
    assert Slots(resources(num_workers=1, gpus_per_worker=0.5), "none").places(there, None) == 4
    assert Slots(resources(num_workers=0), "none").places(there, 3) == 3
    swept = {**resources(num_workers=1), "sweep": {"space": {"resources.num_workers": [1, 8]}}}
    assert Slots(swept, "none").places(there, None) == 1


def test_a_trial_of_an_agent_asks_for_what_each_of_its_processes_takes() -> None:
    def agent(**changes: Any) -> Slots:
        return Slots({"env": "point_goal", "agent": "ppo", "resources": changes}, "none")

    assert agent(gpus_per_learner=0.5).bundles == [{"CPU": 1.0, "GPU": 0.5}]
    many = agent(num_env_runners=2, num_learners=1, gpus_per_learner=1, cpus_per_worker=2, custom={"robot": 1})
    runner = {"CPU": 2.0, "robot": 1.0}
    assert many.bundles == [{"CPU": 2.0}, runner, runner, {"CPU": 2.0, "GPU": 1.0}]
    assert many.places({"CPU": 17.0, "GPU": 3.0, "robot": 9.0}, None) == 2
    with pytest.raises(NotStarted, match="one trial of the sweep asks for 1 GPUs; the Ray cluster has 0"):
        refuse_trial(many, {"CPU": 17.0, "robot": 9.0}, "the Ray cluster")


def test_a_trial_that_never_fits_is_refused_with_the_sum() -> None:
    with pytest.raises(NotStarted, match="4 workers with 2 CPUs each ask for 8; the Ray cluster has 6"):
        refuse_trial(Slots(resources(num_workers=4, cpus_per_worker=2), "none"), {"CPU": 6.0}, "the Ray cluster")
    refuse_trial(Slots(resources(num_workers=3, cpus_per_worker=2), "none"), {"CPU": 6.0}, "the Ray cluster")
