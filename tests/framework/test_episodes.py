"""Episodes that end by themselves, by a limit, by a wish to stop, and not at all."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from raycipe.framework import episodes
from raycipe.framework.errors import RunError


class Endless(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 1.0, False, False, {}


class Walk:
    """An `Env` with or without a time limit around it."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit

    def make(self, task: Any = None, render_mode: str | None = None) -> Any:
        env = Endless()
        return (
            gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TimeLimit(env, self.limit))
            if self.limit
            else env
        )


class Still:
    """A policy that always does the same."""

    def act(self, observations: Any) -> Any:
        return np.zeros(len(observations), np.int64)


def test_an_episode_that_nothing_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "MOST_STEPS", 50)
    with pytest.raises(RunError) as caught:
        episodes.play(Still(), Walk(None), [7, 8])  # type: ignore[arg-type]
    assert "the environment does not end: it was still running after 50 steps" in str(caught.value)
    assert "episode with seed 7" in str(caught.value) and "env.max_episode_steps" in caught.value.hint


def test_a_time_limit_of_its_own_makes_an_episode_as_long_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "MOST_STEPS", 50)
    found = episodes.play(Still(), Walk(120), [7, 8])  # type: ignore[arg-type]
    assert found == [episodes.Episode(7, 120.0, 120), episodes.Episode(8, 120.0, 120)]


def test_a_wish_to_stop_leaves_the_episodes_that_have_ended() -> None:
    asked = iter([False] * 30 + [True])
    seeds = list(range(episodes.MOST_AT_ONCE + 4))  # the last four begin when the first ones have ended
    found = episodes.play(Still(), Walk(20), seeds, stop=lambda: next(asked))  # type: ignore[arg-type]
    assert [episode.seed for episode in found] == seeds[: episodes.MOST_AT_ONCE]
