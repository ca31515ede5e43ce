"""What is known of an environment before a run, how episodes are seeded, and how they are played."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from raycipe.framework.contracts import Env, Policy
from raycipe.framework.environments import Watched, check_agent, check_environment
from raycipe.framework.episodes import Episode, evaluation_seeds, frames, play, summary
from raycipe.framework.errors import NotStarted, RunError
from raycipe.framework.registry import make


class Walk(gymnasium.Env[Any, Any]):
    """Ends after as many steps as its seed says; the reward is the action."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-5, 5, (1,), np.float32)

    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = 1 + (seed or 0) % 7
        return np.zeros(1, np.float64 if self.fault == "dtype" else np.float32), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        if self.fault == "raises" and self.left == 0:
            raise ZeroDivisionError("oh")
        reward = float(self.fault) if self.fault in ("nan", "-inf") else float(action[0])
        shape = (2,) if self.fault == "shape" else (1,)
        return np.zeros(shape, np.float32), reward, self.left <= 0, False, {}


class Walks(Env):
    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    def make(self, task: Any = None, render_mode: str | None = None) -> Any:
        return Walk(self.fault)


class One(Policy):
    def __init__(self) -> None:
        self.asked: list[int] = []

    def act(self, observations: np.ndarray) -> np.ndarray:
        self.asked.append(len(observations))
        return np.ones((len(observations), 1), np.float32)

    def tensors(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("fault", "words"),
    [("shape", r"step 1 gave float32 of shape \(2,\), where observation_space says float32"), ("raises", "oh")],
)
def test_an_environment_that_breaks_gymnasiums_contract_is_refused(fault: str, words: str) -> None:
    with pytest.raises(NotStarted, match=words) as caught:
        check_environment(Walks(fault))
    assert caught.value.where == "env"


def test_an_agent_that_does_not_fit_is_refused_at_its_place() -> None:
    env = make("envs/gymnasium", id="Pendulum-v1")
    with pytest.raises(NotStarted, match="dqn takes Discrete actions") as caught:
        check_agent(env, make("agents/dqn"), {"agent": {"type": "dqn"}})
    assert caught.value.where == "agent"
    agent, recipe = make("agents/ppo", anneal_lr=True), {"agent": {"type": "ppo", "anneal_lr": True}, "train": {}}
    with pytest.raises(NotStarted, match="needs train.env_steps") as caught:
        check_agent(env, agent, recipe)
    assert caught.value.where == "agent.anneal_lr"


def test_all_episodes_are_played_to_their_end_in_the_order_of_their_seeds() -> None:
    policy, seeds = One(), [6, 0, 3, 13, 5]
    found = play(policy, Walks(), seeds)
    assert found == [Episode(seed, float(1 + seed % 7), 1 + seed % 7) for seed in seeds]
    assert policy.asked == [5, 4, 4, 4, 3, 3, 2]  # copies leave when their episode ends
    many = list(range(40))
    assert [episode.seed for episode in play(One(), Walks(), many)] == many


def test_no_two_copies_play_the_same_episodes_and_a_seed_gives_them_again() -> None:
    def seeds(runner: int, copy: int, seed: int = 0) -> tuple[int, ...]:
        env = Watched(Walk(), seed, runner)
        env.reset(seed=copy)
        found = [env.episode_seed]
        for _ in range(3):
            env.reset()
            found.append(env.episode_seed)
        return tuple(found)

    keys = [(runner, copy) for runner in range(3) for copy in range(4)]
    assert len({seeds(*key) for key in keys}) == len(keys) and len(set(seeds(1, 2))) == 4
    assert seeds(1, 2) == seeds(1, 2) != seeds(1, 2, seed=1)
    training = {number for key in keys for number in seeds(*key)}
    assert not training & set(evaluation_seeds(0, 100)) and len(set(evaluation_seeds(0, 100))) == 100


@pytest.mark.parametrize(
    ("fault", "action", "words", "where"),
    [
        ("raises", 1.0, "the environment raised ZeroDivisionError: oh, at step 3 of the episode with seed 2", "env"),
        ("nan", 1.0, "the environment gave a reward that is not finite, nan, at step 1 of the episode with", "env"),
        ("-inf", 1.0, "the environment gave a reward that is not finite, -inf, at step 1 of the episode with", "env"),
        ("", float("nan"), "was given an action that is not finite, [nan], at step 1 of the episode", "agent"),
    ],
)
def test_what_goes_wrong_in_an_episode_tells_seed_and_step(fault: str, action: float, words: str, where: str) -> None:
    env = Watched(Walk(fault), 0, runner=2)
    env.begin(2)
    with pytest.raises(RunError) as caught:
        for _ in range(3):
            env.step(np.array([action]))
    assert words in str(caught.value) and "(env runner 2)" in str(caught.value) and caught.value.where == where
    if fault == "raises":
        assert "test_environments.py:" in str(caught.value)


def test_the_band_is_students() -> None:
    found = summary([Episode(0, 1.0, 3), Episode(1, 3.0, 5)])
    assert found["rl/eval_return"] == 2.0 and found["rl/eval_length"] == 4.0
    assert found["rl/eval_return_high"] - 2.0 == pytest.approx(12.706 * 1.0, rel=1e-3)  # t_0.975,1 · sd / sqrt(2)
    assert summary([Episode(0, 1.0, 3)])["rl/eval_return_low"] == 1.0


def test_frames_are_of_the_same_episode() -> None:
    env = make("envs/point_goal", horizon=4)

    class East(One):
        def act(self, observations: np.ndarray) -> np.ndarray:
            return np.tile(np.array([[1.0, 0.0]], np.float32), (len(observations), 1))

    shown = list(frames(East(), env, seed=3))
    assert len(shown) == 5 and shown[0].shape == (160, 160, 3)
    assert not np.array_equal(shown[0], shown[-1])
    fewer = list(frames(East(), env, seed=3, every=3))
    assert [np.array_equal(a, b) for a, b in zip(fewer, (shown[0], shown[3], shown[4]), strict=True)] == [True] * 3
