"""The rllib launcher: rows, evaluations, checkpoints, stopping and resuming, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.framework import plugins
from raycipe.framework.errors import NotStarted
from raycipe.framework.training.saved import damage, read
from raycipe.launchers import demand, rllib

pytestmark = pytest.mark.ray
RAISING = '''
import gymnasium
import numpy as np
from raycipe.framework.contracts import Env


class Fragile(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, at: int) -> None:
        self.at, self.steps = at, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == self.at:
            raise OverflowError("too far")
        return np.zeros(2, np.float32), 1.0, False, self.steps >= 50, {}


@register
class Raising(Env):
    """An environment that fails."""

    def __init__(self, at: int = 7) -> None:
        self.at = at

    def make(self, task: Any = None, render_mode: str | None = None) -> Any:
        return Fragile(self.at)
'''


def recipe(**changes: Any) -> dict[str, Any]:
    return {
        "recipe": 1,
        "name": "toy",
        "seed": 1,
        "env": {"type": "gymnasium", "id": "CartPole-v1"},
        "model": {"type": "mlp", "hidden": [16], "num_outputs": 16},
        "agent": {
            "type": "ppo",
            "train_batch_size": 256,
            "minibatch_size": 128,
            "num_epochs": 2,
            "num_envs_per_env_runner": 4,
        },
        "train": {"env_steps": 700, "eval_every": 500, "eval_episodes": 4},
        "measures": [{"type": "parameter_count"}, {"type": "calibration_error"}],
        **changes,
    }


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "toy" / "2026-01-01-000000-aaaa"
    for name in ("checkpoints", "artifacts"):
        (folder / name).mkdir(parents=True)
    return folder


def launch(plain: dict[str, Any], folder: Path, resume: bool = False, **given: Any) -> dict[str, Any]:
    return rllib.run(plain, str(folder), resume=resume, roots=plugins.roots(), **given)


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def newest(folder: Path) -> Path:
    return max((folder / "checkpoints").glob("step-*"))


def test_a_run_gives_rows_evaluations_pictures_measures_and_a_checkpoint(ray_session: Any, run_dir: Path) -> None:
    told: list[dict[str, Any]] = []
    result = launch(recipe(), run_dir, progress=told.append)
    assert result["error"] is None and result["status"] == "done"
    assert 700 <= result["steps"] < 1100 and told[-1]["step"] == result["steps"] and told[-1]["unit"] == "env steps"
    training = [row for row in rows(run_dir) if "rl/episode_return" in row]
    for row in training:  # in CartPole each step gives a reward of 1
        assert row["rl/episode_return"] == row["rl/episode_length"] > 5
        assert {"train/policy_loss", "train/value_loss", "train/entropy", "time/env_steps_per_s"} <= row.keys()
    evaluated = [row for row in rows(run_dir) if "rl/eval_return" in row]
    assert [row["step"] for row in evaluated] == sorted({row["step"] for row in evaluated}) and len(evaluated) == 2
    for row in evaluated:
        assert row["rl/eval_return_low"] <= row["rl/eval_return"] <= row["rl/eval_return_high"]
    assert result["final"]["measure/parameter_count/total"] > 0
    assert [item["component"] for item in result["skipped"]] == ["measures/calibration_error"]
    assert {"artifacts/returns.svg", "artifacts/episode.gif"} <= {item["path"] for item in result["artifacts"]}
    assert (run_dir / "artifacts/episode.gif").read_bytes()[:6] == b"GIF89a"
    assert damage(newest(run_dir)) is None and newest(run_dir).name == f"step-{result['steps']:08d}"
    best = max(evaluated, key=lambda row: (row["rl/eval_return"], -row["step"]))["step"]
    assert [item["step"] for item in result["checkpoints"] if item["best"]] == [best]
    assert read(newest(run_dir)).manifest["best"] == [{"step": best}]


def test_equal_seeds_give_equal_runs_and_no_row_tells_a_return_before_an_episode_has_ended(
    ray_session: Any, tmp_path: Path
) -> None:
    plain = recipe(
        env={"type": "point_goal", "horizon": 150},
        train={"iterations": 3, "eval_episodes": 2},
        measures=[],
        model={"type": "mlp", "hidden": [8], "num_outputs": 8},
    )
    found = []
    for name in ("a", "b"):
        folder = tmp_path / "runs" / "toy" / name
        (folder / "artifacts").mkdir(parents=True)
        assert launch(plain, folder)["error"] is None
        found.append([{k: v for k, v in row.items() if not k.startswith(("time/", "seconds"))} for row in rows(folder)])
    assert found[0] == found[1]
    assert ["rl/episode_return" in row for row in found[0][:3]] == [False, False, True]


def test_ctrl_c_saves_and_a_resume_goes_on_with_counters_optimizer_and_replay(ray_session: Any, run_dir: Path) -> None:
    agent = {"type": "sac", "learning_starts": 100, "steps_per_iteration": 100, "training_intensity": 8, "hidden": [16]}
    plain = recipe(env={"type": "point_goal"}, agent=agent, measures=[], train={"env_steps": 10**6, "eval_episodes": 1})
    del plain["model"]
    said: list[str] = []
    sent: list[int] = []

    def interrupt(row: dict[str, Any]) -> None:
        if row["step"] >= 300 and not sent:
            sent.append(row["step"])
            os.kill(os.getpid(), signal.SIGINT)

    result = launch(plain, run_dir, progress=interrupt, on_info=said.append)
    assert any("saving a checkpoint before stopping" in line for line in said)
    assert result["status"] == "interrupted" and result["stopped"] == "user"
    stopped, checkpoint = result["steps"], read(newest(run_dir))
    state, before = checkpoint.load("state.pt"), len(rows(run_dir))
    replay = checkpoint.load("rank0.pt")["transitions"]
    assert checkpoint.step == stopped == state["step"] and replay["size"] == stopped

    plain["train"]["env_steps"] = stopped + 200
    told: list[dict[str, Any]] = []
    result = launch(plain, run_dir, resume=True, progress=told.append)
    assert result["error"] is None and result["status"] == "done" and told[0]["step"] >= stopped
    after = read(newest(run_dir))
    assert after.load("state.pt")["iteration"] == state["iteration"] + 2
    later = after.load("rank0.pt")["transitions"]
    assert later["size"] == result["steps"] >= stopped + 200
    assert torch.equal(later["columns"]["rewards"][:stopped], replay["columns"]["rewards"])
    steps = [row["step"] for row in rows(run_dir)]
    assert steps == sorted(steps) and len(steps) > before
    assert [row["attempt"] for row in rows(run_dir)] == [0] * before + [1] * (len(steps) - before)


def test_the_goal_ends_training_in_as_many_threads_as_a_worker_has_cpus(
    ray_session: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from raycipe.launchers import rllib_session

    threads: list[int] = []
    evaluate = rllib_session.evaluate
    monkeypatch.setattr(
        rllib_session, "evaluate", lambda *given: threads.append(torch.get_num_threads()) or evaluate(*given)
    )
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    goal = {"metric": "rl/episode_return", "at_least": 5}
    result = launch(recipe(train={"env_steps": 10**6, "until": goal, "eval_episodes": 2}, measures=[]), run_dir)
    assert result["status"] == "done" and result["stopped"] == "until" and result["steps"] < 3000
    assert result["best"]["rl/episode_return"]["value"] >= 5
    assert (threads, torch.get_num_threads()) == ([1], 3)
    torch.set_num_threads(before)


def test_an_environment_that_raises_tells_seed_step_and_frame(ray_session: Any, run_dir: Path, lab: Any) -> None:
    lab({"envs/raising": RAISING})
    result = launch(recipe(env={"type": "raising"}, measures=[]), run_dir)
    error = result["error"]
    assert result["status"] == "failed" and error["type"] == "env" and error["where"] == "env"
    assert result["steps"] is None and not (run_dir / "environment-failure.json").exists()
    assert "the environment raised OverflowError: too far, at step 7 of the episode with seed " in error["message"]
    assert "raising.py:" in error["message"] and ", step" in error["message"]


def test_an_evaluation_without_end_is_refused_after_its_training_was_saved(
    ray_session: Any, run_dir: Path, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab({"envs/raising": RAISING.replace("self.steps >= 50", "False")})
    monkeypatch.setattr("raycipe.framework.episodes.MOST_STEPS", 300)
    result = launch(recipe(env={"type": "raising", "at": -1}, measures=[]), run_dir)
    error = result["error"]
    assert result["status"] == "failed" and error["type"] == "env" and error["where"] == "env"
    assert "does not end: it was still running after 300 steps" in error["message"]
    assert [item["step"] for item in result["checkpoints"]] == [512]


def test_a_stop_ends_an_evaluation_without_end_and_saves(
    ray_session: Any, run_dir: Path, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from raycipe.framework.training.signals import stop_file

    lab({"envs/raising": RAISING.replace("self.steps >= 50", "False")})

    def stop(row: dict[str, Any]) -> None:
        if row["step"] >= 512:
            stop_file(run_dir).touch()

    result = launch(recipe(env={"type": "raising", "at": -1}, measures=[]), run_dir, progress=stop)
    assert result["error"] is None and (result["status"], result["stopped"]) == ("interrupted", "user")
    assert newest(run_dir).name == "step-00000512" and "rl/eval_return" not in result["final"]
    monkeypatch.setattr("raycipe.framework.episodes.MOST_STEPS", 300)
    error = launch(recipe(env={"type": "raising", "at": -1}, measures=[]), run_dir, resume=True)["error"]
    assert "does not end" in error["message"] and error["step"] == 512  # the evaluation that is owed comes first


def test_a_policy_that_becomes_nan_is_told(ray_session: Any, run_dir: Path, lab: Any) -> None:
    lab({"envs/raising": RAISING.replace("np.float32), 1.0, False", "np.float32), 1e30, False")})
    agent = {"type": "ppo", "train_batch_size": 128, "minibatch_size": 64, "value_clip": 1e38, "grad_clip": None}
    result = launch(recipe(env={"type": "raising", "at": 99}, agent=agent, measures=[]), run_dir)
    error = result["error"]
    assert result["status"] == "failed" and error["type"] == "nonfinite" and error["where"] == "agent"
    assert " became " in error["message"] and "agent.lr" in error["message"]
    assert result["checkpoints"] == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the thread ends by it
def test_an_error_in_appos_thread_ends_the_run_instead_of_stopping_it_for_ever(ray_session: Any, run_dir: Path) -> None:
    agent = {"type": "appo", "lr": 1e38, "train_batch_size": 256}
    result = launch(recipe(agent=agent, measures=[]), run_dir)
    assert result["status"] == "failed" and "without overflow" in result["error"]["message"]


def test_a_demand_beyond_the_machine_is_refused() -> None:
    plain = recipe(resources={"num_env_runners": 7, "num_learners": 2, "cpus_per_worker": 2})
    with pytest.raises(NotStarted) as caught:
        demand.refuse_agents_demand(plain, {"CPU": 4.0}, "this machine")
    assert "7 env runners and 2 learners ask for 18 CPUs; this machine has 4" in str(caught.value)
    demand.refuse_agents_demand(recipe(resources={"num_env_runners": 4}), {"CPU": 4.0}, "this machine")
    agent = {"type": "appo", "config": {"num_aggregator_actors_per_learner": 2}}
    aggregated = recipe(agent=agent, resources={"num_env_runners": 1, "num_learners": 1, "cpus_per_worker": 0.5})
    with pytest.raises(NotStarted, match="1 env runner and 1 learner and 2 aggregators ask for 3 CPUs; .* has 2"):
        demand.refuse_agents_demand(aggregated, {"CPU": 2.0}, "this machine")
    with pytest.raises(NotStarted, match="the launching process asks for 1 GPUs; the Ray cluster has 0"):
        demand.refuse_agents_demand(recipe(resources={"gpus_per_learner": 1}), {"CPU": 2.0}, "the Ray cluster")


# ---------------------------------------------------------------------------------------------- with env runners


NOTING = """
import os
from pathlib import Path
import gymnasium
from raycipe.framework.contracts import Env


@register
class Noting(Env):
    '''An environment that leaves the numbers of the processes that make it.'''

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def make(self, task: Any = None, render_mode: str | None = None) -> Any:
        Path(self.folder, str(os.getpid())).touch()
        return gymnasium.make("CartPole-v1", render_mode=render_mode)
"""


@pytest.mark.slow
def test_a_killed_env_runner_is_started_again_and_the_run_goes_on(ray_session: Any, run_dir: Path, lab: Any) -> None:
    lab({"envs/noting": NOTING})
    notes = run_dir / "notes"
    notes.mkdir()
    plain = recipe(
        env={"type": "noting", "folder": str(notes)},
        train={"env_steps": 30_000, "eval_every": 5000, "eval_episodes": 5},
        resources={"num_env_runners": 2, "cpus_per_worker": 0.5},
        measures=[],
    )
    killed: list[int] = []

    def kill(row: dict[str, Any]) -> None:
        if row["step"] >= 2000 and not killed:
            killed.append(next(int(file.name) for file in notes.iterdir() if int(file.name) != os.getpid()))
            os.kill(killed[0], signal.SIGKILL)

    said: list[str] = []
    result = launch(plain, run_dir, progress=kill, on_info=said.append)
    assert result["error"] is None and result["status"] == "done" and result["steps"] >= 30_000 and killed
    assert any("an env runner died and was started again" in line for line in said)
    assert len(list(notes.iterdir())) == 4  # the driver, two runners and the new one


@pytest.mark.slow
def test_the_evaluation_is_the_same_wherever_it_is_played(ray_session: Any, tmp_path: Path) -> None:
    from raycipe.framework.episodes import evaluation_seeds, play
    from raycipe.framework.registry import make
    from raycipe.launchers.rllib_build import build_algorithm, evaluate

    plain = recipe(resources={"num_env_runners": 2, "cpus_per_worker": 0.5})
    env, agent = make("envs/gymnasium", id="CartPole-v1"), make("agents/ppo", num_envs_per_env_runner=2)
    algorithm = build_algorithm(plain, agent, env.facts(), str(tmp_path / "toy" / "x"), [])
    try:
        policy, seeds = agent.policy(algorithm), evaluation_seeds(3, 7)
        assert evaluate(algorithm, policy, plain, [], seeds, str(tmp_path)) == play(policy, env, seeds)
    finally:
        algorithm.stop()


@pytest.mark.slow
def test_an_environment_that_raises_in_a_worker_ends_the_run(ray_session: Any, run_dir: Path, lab: Any) -> None:
    lab({"envs/raising": RAISING})
    resources = {"num_env_runners": 1, "cpus_per_worker": 0.5}
    result = launch(recipe(env={"type": "raising"}, measures=[], resources=resources), run_dir)
    error = result["error"]
    assert result["status"] == "failed" and error["type"] == "env"
    assert "too far, at step 7 of the episode with seed " in error["message"]
    assert "(env runner 1)" in error["message"] and "raising.py:" in error["message"]


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["appo", "dqn", "sac", "ppo"])
def test_each_agent_learns_with_runners_and_learners_of_their_own(ray_session: Any, run_dir: Path, agent: str) -> None:
    resources = {"num_env_runners": 1, "num_learners": 1, "cpus_per_worker": 0.5}
    plain = recipe(agent={"type": agent}, resources=resources, train={"env_steps": 3000}, measures=[])
    result = launch(plain, run_dir)
    assert result["error"] is None and result["steps"] >= 3000
    assert any(name.startswith("train/") for name in result["final"])
