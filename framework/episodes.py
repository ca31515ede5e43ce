"""Plays episodes with a fixed policy: for evaluation, for measures and for pictures.

Episodes run side by side, so that the network sees batches; each is played to its end and none is left out, since the
first to end are the short ones. An episode that has no end is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from scipy.special import stdtrit

from raycipe.framework.contracts import Env, Policy
from raycipe.framework.environments import MAX_SEED, Watched
from raycipe.framework.streams import numpy_generator

MOST_AT_ONCE = 16
MOST_STEPS = 100_000  # of an episode without a time limit; the longest known to need more (Atari) have one


WITHOUT_END = (
    "a return needs an end: let the environment terminate or truncate its episodes, or give it a time limit "
    "(env.max_episode_steps of gymnasium, gymnasium.wrappers.TimeLimit in an environment of your own)"
)


class Episode(NamedTuple):
    """One finished episode."""

    seed: int
    episode_return: float  # sum of rewards, not discounted
    length: int  # steps


def evaluation_seeds(seed: int, count: int) -> list[int]:
    """The seeds of the evaluation's episodes: the same in every evaluation of a run, and none of the training's."""
    seeds: list[int] = numpy_generator(seed, "evaluation episodes").integers(MAX_SEED, size=count).tolist()
    return seeds


def play(
    policy: Policy, env: Env, seeds: Sequence[int], seed: int = 0, stop: Callable[[], bool] = lambda: False
) -> list[Episode]:
    """One episode for each seed, in their order; only those that have ended when `stop`, asked at each step, says so.

    Raises RunError("env", ...) naming the episode's seed and step, also for an episode of MOST_STEPS that nothing
    limits: it would be played for ever.
    """
    waiting = list(enumerate(seeds))
    copies = [Watched(env.make(), seed) for _ in range(min(len(seeds), MOST_AT_ONCE))]
    episodes: dict[int, Episode] = {}
    try:
        running = [_Running(copy, *waiting.pop(0)) for copy in copies]
        while running and not stop():
            actions = policy.act(np.stack([entry.observation for entry in running]))
            for entry, action in zip(running, actions, strict=True):
                if entry.step(action):
                    episodes[entry.index] = Episode(entry.seed, entry.total, entry.steps)
                    entry.next = _Running(entry.env, *waiting.pop(0)) if waiting else None
            running = [entry.next for entry in running if entry.next is not None]
    finally:
        for copy in copies:
            copy.close()  # type: ignore[no-untyped-call]
    return [episodes[index] for index in sorted(episodes)]


class _Running:
    """An episode that is being played; `next` is what its environment plays in the next step."""

    def __init__(self, env: Watched, index: int, seed: int) -> None:
        self.env, self.index, self.seed = env, index, seed
        self.total, self.steps = 0.0, 0
        self.observation = np.asarray(env.begin(seed)[0])
        self.next: _Running | None = self

    def step(self, action: Any) -> bool:
        """Whether it has ended."""
        if self.steps == MOST_STEPS and not has_time_limit(self.env):
            raise self.env.failure(f"does not end: it was still running after {MOST_STEPS:,} steps", WITHOUT_END)
        observation, reward, terminated, truncated, _ = self.env.step(action)
        self.observation = np.asarray(observation)
        self.total, self.steps = self.total + float(reward), self.steps + 1
        return bool(terminated or truncated)


def has_time_limit(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether one of gymnasium's time limits stands around the environment."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            return True
        env = env.env
    return False


def frames(policy: Policy, env: Env, seed: int, every: int = 1) -> Iterator[np.ndarray]:
    """Rendered frames (height, width, 3; uint8) of one episode: the first, each `every`-th step's, and the last.
    Raises whatever the renderer raises."""
    copy = Watched(env.make(render_mode="rgb_array"), 0)
    try:
        observation, _ = copy.begin(seed)
        for step in count():
            if step % every == 0:
                yield np.asarray(copy.render())
            action = policy.act(np.asarray(observation)[None])[0]
            observation, _, terminated, truncated, _ = copy.step(action)
            if terminated or truncated:
                yield np.asarray(copy.render())
                return
    finally:
        copy.close()  # type: ignore[no-untyped-call]


def summary(episodes: Sequence[Episode]) -> dict[str, float]:
    """Metrics of one evaluation. Low and high bound the mean return with 95 % confidence (Student's t); a single
    episode has no band."""
    returns = np.array([episode.episode_return for episode in episodes])
    size = len(returns)
    half = float(stdtrit(size - 1, 0.975) * returns.std(ddof=1) / np.sqrt(size)) if size > 1 else 0.0
    return {
        "rl/eval_return": float(returns.mean()),
        "rl/eval_return_low": float(returns.mean() - half),
        "rl/eval_return_high": float(returns.mean() + half),
        "rl/eval_return_min": float(returns.min()),
        "rl/eval_return_max": float(returns.max()),
        "rl/eval_length": float(np.mean([episode.length for episode in episodes])),
    }
