"""RLlib's results as rows: one name for the same thing in all algorithms; what is missing stays missing.

docs/guide/metrics.md lists each name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

MODULE = "default_policy"
EPISODES = {"episode_return_mean": "rl/episode_return", "episode_len_mean": "rl/episode_length"}
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


def metrics_of(result: Mapping[str, Any]) -> dict[str, float]:
    """One iteration's metrics. Returns and lengths are missing until a first episode has ended."""
    found = result.get("env_runners") or {}
    metrics = dict(_finite(found, EPISODES))
    episodes = found.get("num_episodes_lifetime")
    if episodes is not None:
        metrics["rl/episodes"] = float(episodes)
    metrics.update(_finite((result.get("learners") or {}).get(MODULE) or {}, LEARNER))
    return metrics


def _finite(values: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    for theirs, ours in names.items():
        value = values.get(theirs)
        if value is not None and math.isfinite(float(value)):
            yield ours, float(value)
