"""Builds an RLlib algorithm from a recipe, and plays evaluation episodes where its env runners are."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.tune.registry import register_env

from raycipe.framework import plugins
from raycipe.framework.contracts import Agent, Policy
from raycipe.framework.environments import Watched, report_failure, reported_failure
from raycipe.framework.episodes import Episode, play
from raycipe.framework.errors import RunError
from raycipe.framework.registry import build
from raycipe.framework.streams import key
from raycipe.framework.training.signals import POLL_S, stop_file
from raycipe.launchers.rllib_metrics import EPISODES

Roots = Sequence[tuple[str, str, str]]
SEEDS = 2**31 - 10**6  # RLlib adds the number of the env runner, and gymnasium that of the copy


def build_algorithm(
    recipe: Mapping[str, Any], agent: Agent, facts: Mapping[str, Any], run_dir: str, roots: Roots
) -> Any:
    """The running algorithm; `algorithm.stop()` ends its actors."""
    seed = int(recipe.get("seed") or 0)
    name = f"raycipe-{Path(run_dir).parent.name}-{Path(run_dir).name}"
    register_env(name, partial(make_env, recipe["env"], roots, seed, run_dir))
    config = agent.config(recipe, facts)
    config.environment(name, disable_env_checking=True)  # gymnasium's check has run
    _resources(config, recipe.get("resources") or {})
    config.debugging(seed=key(seed, "agent") % SEEDS, log_level="ERROR", log_sys_usage=False)
    config.callbacks(EpisodeRecorder)
    config.env_runners(sample_timeout_s=None)  # a slow machine must not lose samples
    return config.build_algo()


class EpisodeRecorder(RLlibCallback):  # type: ignore[misc]
    """Reports each finished training episode, (return, length)."""

    def on_episode_end(
        self, *, episode: Any, prev_episode_chunks: Sequence[Any] = (), metrics_logger: Any = None, **ignored: Any
    ) -> None:
        total = sum(float(chunk.get_return()) for chunk in (*prev_episode_chunks, episode))
        metrics_logger.log_value(EPISODES, (total, int(episode.t)), reduce="item_series")


def make_env(section: Any, roots: Roots, seed: int, run_dir: str, context: Any) -> Watched:
    """One copy of the environment, wherever RLlib wants it; `context` tells which env runner that is."""
    plugins.adopt(list(roots))
    return Watched(build(section, "envs", "env").make(), seed, int(context.worker_index or 0), run_dir)


def _resources(config: Any, resources: Mapping[str, Any]) -> None:
    cpus, failures = resources.get("cpus_per_worker", 1), int(resources.get("max_failures", 2))
    config.env_runners(
        num_env_runners=int(resources.get("num_env_runners", 0)),
        num_cpus_per_env_runner=cpus,
        custom_resources_per_env_runner=dict(resources.get("custom") or {}),
    )
    config.learners(
        num_learners=int(resources.get("num_learners", 0)),
        num_gpus_per_learner=resources.get("gpus_per_learner") or 0,
        num_cpus_per_learner=cpus,
    )
    config.fault_tolerance(restart_failed_env_runners=True, max_num_env_runner_restarts=failures)


def evaluate(
    algorithm: Any, policy: Policy, recipe: Mapping[str, Any], roots: Roots, seeds: Sequence[int], run_dir: str
) -> list[Episode]:
    """The evaluation's episodes in the order of their seeds, played by the env runners, or here if there are none.

    Fewer, if the run was asked to stop meanwhile.
    """
    group = algorithm.env_runner_group
    ids = list(group.healthy_worker_ids())
    parts = [seeds[first :: len(ids)] for first in range(len(ids))]
    works: list[Callable[[Any], Any]] = [
        partial(_play_on_runner, policy, recipe["env"], roots, part, run_dir) for part in parts
    ]
    found = group.foreach_env_runner(works, local_env_runner=False, remote_worker_ids=ids) if ids else []
    failure = reported_failure(run_dir)
    if failure is not None:
        raise failure
    episodes = {episode.seed: episode for part in found for episode in part}
    missing = [seed for seed in seeds if seed not in episodes]  # of all, or of a runner that died meanwhile
    if missing:
        here = play(policy, build(recipe["env"], "envs", "env"), missing, stop=Asked(run_dir))
        episodes.update({episode.seed: episode for episode in here})
    return [episodes[seed] for seed in seeds if seed in episodes]


class Asked:
    """Whether the run was asked to stop, for a loop that asks at each step: it looks a few times a second."""

    def __init__(self, run_dir: str) -> None:
        self.file, self.next = stop_file(run_dir), 0.0

    def __call__(self) -> bool:
        if time.monotonic() < self.next:
            return False
        self.next = time.monotonic() + POLL_S
        return self.file.exists()


def _play_on_runner(
    policy: Policy, section: Any, roots: Roots, seeds: Sequence[int], run_dir: str, runner: Any
) -> list[Episode]:
    plugins.adopt(list(roots))
    try:
        return play(policy, build(section, "envs", "env"), seeds, stop=Asked(run_dir))
    except RunError as error:  # RLlib would start the runner again and lose the reason
        report_failure(run_dir, error)
        return []


def headless() -> None:
    """Let MuJoCo draw without a screen where there is none; must be set before MuJoCo is imported."""
    if not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")
