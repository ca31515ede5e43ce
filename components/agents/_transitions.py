"""Replay for agents that learn off-policy: transitions in arrays, and the training step that uses them.

RLlib's own buffer cuts each transition out of its episode as an object and joins 256 of them again for every update,
which costs several times the update itself. Here a batch is one indexing of arrays. The learner, its losses and target
networks are RLlib's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

NEVER_LOGGED = "td_error"  # one number per transition


class Windows(NamedTuple):
    """Transitions over up to n steps, one per starting step; T is their number."""

    returns: np.ndarray  # (T,) discounted sum of the rewards within
    ends: np.ndarray  # (T,) index of the observation after the last of them
    lengths: np.ndarray  # (T,) steps within: n, less at the end of an episode


def windows(rewards: np.ndarray, n: int, gamma: float, is_done: bool) -> Windows:
    """n-step returns R_t = Σ_{k<m} γ^k r_{t+k}, m = min(n, steps left); starts whose window is open are left out.

    Args:
        rewards: (steps,) of one episode's consecutive steps.
        n: length of a window.
        gamma: discount.
        is_done: whether the episode ends after the last step: then shorter windows are complete, too.
    """
    steps = len(rewards)
    starts = np.arange(steps if is_done else max(0, steps - n + 1))
    lengths = np.minimum(n, steps - starts)
    returns = np.zeros(len(starts))
    for k in range(n):
        inside = starts[lengths > k]
        returns[: len(inside)] += gamma**k * rewards[inside + k]
    return Windows(returns, starts + lengths, lengths)


class Transitions:
    """A ring of transitions.

    Args:
        capacity: the oldest are overwritten beyond it.
        n_step: rewards summed per transition.
        gamma: their discount.
        seed: of the draws.
    """

    def __init__(self, capacity: int, n_step: int, gamma: float, seed: int) -> None:
        self.capacity, self.n_step, self.gamma = capacity, n_step, gamma
        self.generator = np.random.default_rng(seed)
        self.columns: dict[str, np.ndarray] = {}
        self.size = self.position = 0
        self.open: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}  # episode -> steps whose window is open

    def add(self, episodes: Sequence[Any]) -> int:
        """Take in chunks of RLlib's episodes; gives the number of their steps."""
        return sum(self._add(episode) for episode in episodes)

    def _add(self, episode: Any) -> int:
        observations, actions = episode.get_observations(), episode.get_actions()
        rewards = np.asarray(episode.get_rewards(), dtype=np.float64)
        new = len(rewards)
        before = self.open.pop(episode.id_, None)
        if before is not None:
            observations = np.concatenate([before[0], observations])
            actions, rewards = np.concatenate([before[1], actions]), np.concatenate([before[2], rewards])
        is_done = bool(episode.is_terminated or episode.is_truncated)
        found = windows(rewards, self.n_step, self.gamma, is_done)
        count, steps = len(found.returns), len(rewards)
        if count:
            terminated = np.zeros(count, dtype=bool)
            terminated[found.ends == steps] = bool(episode.is_terminated)
            self.extend(
                {
                    Columns.OBS: _real(observations[:count]),
                    Columns.NEXT_OBS: _real(observations[found.ends]),
                    Columns.ACTIONS: np.asarray(actions[:count]),
                    Columns.REWARDS: found.returns.astype(np.float32),
                    Columns.TERMINATEDS: terminated,
                    "n_step": found.lengths.astype(np.float32),
                }
            )
        if not is_done and count < steps:
            self.open[episode.id_] = (observations[count:steps], actions[count:steps], rewards[count:steps])
        return new

    def extend(self, columns: Mapping[str, np.ndarray]) -> None:
        """Append transitions, (count, ...) each."""
        count = len(columns[Columns.REWARDS])
        if not self.columns:
            self.columns = {
                name: np.zeros((self.capacity, *values.shape[1:]), values.dtype) for name, values in columns.items()
            }
        places = (self.position + np.arange(count)) % self.capacity
        for name, values in columns.items():
            self.columns[name][places] = values
        self.position = (self.position + count) % self.capacity
        self.size = min(self.capacity, self.size + count)

    def sample(self, count: int) -> dict[str, torch.Tensor]:
        """`count` transitions drawn uniformly with replacement, as a learner's batch."""
        chosen = self.generator.integers(self.size, size=count)
        batch = {name: torch.from_numpy(values[chosen]) for name, values in self.columns.items()}
        batch["weights"] = torch.ones(count)
        return batch

    def state(self) -> dict[str, Any]:
        """Tensors, numbers and texts. Steps whose window is open are left out: their episodes end with the process."""
        words = self.generator.bit_generator.state["state"]
        return {
            "columns": {name: torch.from_numpy(values[: self.size].copy()) for name, values in self.columns.items()},
            "size": self.size,
            "position": self.position,
            "generator": {name: str(number) for name, number in words.items()},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.size, self.position = int(state["size"]), int(state["position"])
        self.columns = {}
        for name, values in state["columns"].items():
            whole = np.zeros((self.capacity, *values.shape[1:]), values.numpy().dtype)
            whole[: self.size] = values.numpy()
            self.columns[name] = whole
        full = dict(self.generator.bit_generator.state)
        full["state"] = {name: int(text) for name, text in state["generator"].items()}
        self.generator.bit_generator.state = full


def _real(values: np.ndarray) -> np.ndarray:
    """Real numbers in single precision, as networks take them; integers (images) as they are."""
    return values.astype(np.float32) if np.issubdtype(values.dtype, np.floating) else values


class ReplayTraining:
    """The training step of SAC and DQN, to be laid over RLlib's algorithm: collect, then as many updates as the
    collected steps are worth, training_intensity / batch size each; a fraction is kept for the next step."""

    config: Any
    metrics: Any
    env_runner_group: Any
    learner_group: Any

    def setup(self, config: Any) -> None:
        super().setup(config)  # type: ignore[misc]
        capacity = int(self.config.replay_buffer_config["capacity"])
        self.transitions = Transitions(capacity, self.config.n_step, self.config.gamma, self.config.seed or 0)
        self.owed = 0.0  # updates

    def training_step(self) -> None:
        config = self.config
        episodes, results = synchronous_parallel_sample(
            worker_set=self.env_runner_group,
            concat=True,
            sample_timeout_s=config.sample_timeout_s,
            _uses_new_env_runners=True,
            _return_metrics=True,
        )
        self.metrics.aggregate(results, key=ENV_RUNNER_RESULTS)
        added = self.transitions.add(episodes)
        sampled = self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0)
        if sampled < config.num_steps_sampled_before_learning_starts or not self.transitions.size:
            return
        batch_size = config.total_train_batch_size
        self.owed += added * config.training_intensity / batch_size
        if self.owed < 1.0:
            return
        while self.owed >= 1.0:
            self.owed -= 1.0
            batch = SampleBatch(self.transitions.sample(batch_size))
            found = self.learner_group.update(
                batch=MultiAgentBatch({DEFAULT_MODULE_ID: batch}, env_steps=batch_size),
                timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: sampled},
            )
            for result in found:
                for values in result.values():
                    values.pop(NEVER_LOGGED, None)
            self.metrics.aggregate(found, key=LEARNER_RESULTS)
        self.env_runner_group.sync_weights(
            from_worker_or_learner_group=self.learner_group, policies={DEFAULT_MODULE_ID}, inference_only=True
        )


def replay_state(algorithm: Any) -> dict[str, Any]:
    return {"transitions": algorithm.transitions.state(), "owed": algorithm.owed}


def load_replay_state(algorithm: Any, state: Mapping[str, Any]) -> None:
    algorithm.transitions.load(state["transitions"])
    algorithm.owed = float(state["owed"])
