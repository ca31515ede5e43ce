"""RLlib's results as rows: one name for the same thing in all algorithms; what is missing stays missing.

docs/guide/metrics.md lists each name.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MODULE = "default_policy"
EPISODES = "raycipe_episodes"
RECENT = 100  # training episodes over which returns are averaged
LEARNER = {
    "total_loss": "train/loss",
    "policy_loss": "train/policy_loss",
    "vf_loss": "train/value_loss",
    "vf_explained_var": "train/value_explained",
    "entropy": "train/entropy",
    "mean_kl_loss": "train/kl",
    "qf_loss": "train/q_loss",
    "qf_mean": "train/q_mean",
    "td_error_mean": "train/td_error",
    "alpha_loss": "train/alpha_loss",
    "alpha_value": "train/alpha",
    "default_optimizer_learning_rate": "train/lr",
    "policy_learning_rate": "train/lr",
    "actor_learning_rate": "train/lr",
    "gradients_default_optimizer_global_norm": "train/grad_norm",
}


def env_steps_of(result: Mapping[str, Any]) -> int:
    """Environment steps sampled since the run began, earlier attempts included."""
    return int(result["env_runners"]["num_env_steps_sampled_lifetime"])


def episodes_of(result: Mapping[str, Any]) -> list[tuple[float, int]]:
    """(return, length) of the training episodes that ended in this iteration."""
    found = result["env_runners"].get(EPISODES)
    if isinstance(found, tuple):  # RLlib unwraps a list of one
        found = [found]
    if not isinstance(found, list):  # None, or NaN: no episode ended
        return []
    return [(float(value), int(length)) for value, length in found]


class Recent:
    """The newest finished training episodes. RLlib's own mean is of one iteration's episodes, with several env runners
    of a window that differs from them; its lengths count the first observation of each chunk, too."""

    def __init__(self) -> None:
        self.episodes: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self.count = 0

    def add(self, episodes: Sequence[tuple[float, int]]) -> None:
        self.episodes.extend(episodes)
        self.count += len(episodes)

    def metrics(self) -> dict[str, float]:
        """Nothing until a first episode has ended."""
        if not self.episodes:
            return {}
        returns, lengths = zip(*self.episodes, strict=True)
        size = len(self.episodes)
        return {
            "rl/episode_return": math.fsum(returns) / size,
            "rl/episode_length": sum(lengths) / size,
            "rl/episodes": float(self.count),
        }

    def state(self) -> dict[str, Any]:
        return {"episodes": [list(entry) for entry in self.episodes], "count": self.count}

    def load(self, state: Mapping[str, Any]) -> None:
        self.episodes.extend((float(value), int(length)) for value, length in state["episodes"])
        self.count = int(state["count"])


def learning_of(result: Mapping[str, Any]) -> dict[str, float]:
    """What the learner reports of this iteration."""
    found = dict(_finite((result.get("learners") or {}).get(MODULE) or {}, LEARNER))
    if found.get("train/kl") == 0:  # what ppo and appo report where no KL term is asked for: it is not computed then
        del found["train/kl"]
    return found


def _finite(values: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    for theirs, ours in names.items():
        value = values.get(theirs)
        if value is not None and math.isfinite(float(value)):
            yield ours, float(value)
