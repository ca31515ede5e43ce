"""Soft actor-critic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from gymnasium.spaces import Box, Discrete
from ray.rllib.algorithms.sac import SAC, SACConfig

from raycipe.components.agents._agent import RllibAgent
from raycipe.components.agents._settings import Setting
from raycipe.components.agents._torso import TorsoSACCatalog
from raycipe.components.agents._transitions import ReplayTraining, load_replay_state, replay_state
from raycipe.framework.arguments import Count, Positive, Range, Share, Width
from raycipe.framework.registry import register


class ReplaySac(ReplayTraining, SAC):  # type: ignore[misc]
    """RLlib's SAC with replay from arrays."""


@register
class Sac(RllibAgent):
    """SAC: a stochastic policy that maximises return and entropy, off-policy from a replay buffer (RLlib's).

    With a' ~ π(s'), y = r + γ (min_i Q_i'(s', a') - α log π(a'|s')): each Q_i minimises (Q_i(s, a) - y)², the policy
    α log π(a|s) - min_i Q_i(s, a), the temperature α moves the entropy to target_entropy, and the targets follow,
    Q_i' <- tau Q_i + (1 - tau) Q_i'.

    Args:
        lr: Adam's learning rate of the policy and the Q functions
        alpha_lr: learning rate of the temperature
        gamma: discount γ of later rewards, per step
        tau: share of the target networks that is replaced per update
        initial_alpha: temperature at the start
        target_entropy: entropy that the temperature aims at; auto is minus the action's dimension
        n_step: rewards that are summed before the Q function takes over
        train_batch_size: transitions per update
        training_intensity: replayed transitions per env step; train_batch_size means one update per step, less is
            cheaper and learns less from each step
        replay_capacity: transitions that the buffer keeps
        learning_starts: env steps before the first update
        fragment_length: env steps that each environment collects between updates
        twin_q: two Q functions, of which the smaller counts
        grad_clip: largest norm of a gradient; null does not clip
        steps_per_iteration: env steps between rows, evaluations and checkpoints
        num_envs_per_env_runner: environments that each runner steps side by side
        normalize_observations: by their running mean and standard deviation, clipped at 10
        hidden: width of the layers of all networks where the recipe has no model
        config: further settings of RLlib's SACConfig by name

    Reference:
        T. Haarnoja et al., Soft Actor-Critic Algorithms and Applications, 2018.

    Recipe:
        env: {type: gymnasium, id: Pendulum-v1}
        agent: {type: sac, lr: 1e-3, training_intensity: 64, num_envs_per_env_runner: 4}
        train: {env_steps: 4000}
    """

    algorithm_config: ClassVar[type] = SACConfig
    catalog: ClassVar[type] = TorsoSACCatalog
    activation: ClassVar[str] = "relu"
    arguments: ClassVar[Mapping[str, str]] = {
        "actor_lr": "lr",
        "critic_lr": "lr",
        "alpha_lr": "alpha_lr",
        "tau": "tau",
        "initial_alpha": "initial_alpha",
        "target_entropy": "target_entropy",
        "rollout_fragment_length": "fragment_length",
        "training_intensity": "training_intensity",
        "n_step": "n_step",
        "replay_buffer_config": "replay_capacity",
        "num_steps_sampled_before_learning_starts": "learning_starts",
        "twin_q": "twin_q",
        "min_sample_timesteps_per_iteration": "steps_per_iteration",
        "min_time_s_per_iteration": "steps_per_iteration",
    }

    def __init__(
        self,
        lr: Positive = 3e-4,
        alpha_lr: Positive = 3e-4,
        gamma: Share = 0.99,
        tau: Share = 0.005,
        initial_alpha: Positive = 1.0,
        target_entropy: float | Literal["auto"] = "auto",
        n_step: Annotated[int, Range(ge=1, le=1000)] = 1,
        train_batch_size: Count = 256,
        training_intensity: Positive | None = None,
        replay_capacity: Count = 1_000_000,
        fragment_length: Count = 1,
        learning_starts: Annotated[int, Range(ge=0, le=10**9)] = 1000,
        twin_q: bool = True,
        grad_clip: Positive | None = None,
        steps_per_iteration: Count = 1000,
        num_envs_per_env_runner: Annotated[int, Range(ge=1, le=10**4)] = 1,
        normalize_observations: bool = False,
        hidden: list[Width] = [256, 256],  # noqa: B006 (never changed)
        config: dict[str, Setting] = {},  # noqa: B006 (never changed)
    ) -> None:
        self.lr = lr
        self.alpha_lr = alpha_lr
        self.gamma = gamma
        self.tau = tau
        self.initial_alpha = initial_alpha
        self.target_entropy = target_entropy
        self.n_step = n_step
        self.train_batch_size = train_batch_size
        self.training_intensity = training_intensity
        self.replay_capacity = replay_capacity
        self.learning_starts = learning_starts
        self.fragment_length = fragment_length
        self.twin_q = twin_q
        self.grad_clip = grad_clip
        self.steps_per_iteration = steps_per_iteration
        self.num_envs_per_env_runner = num_envs_per_env_runner
        self.normalize_observations = normalize_observations
        self.hidden = hidden
        self.settings = config
        self.check_settings(config)

    def actions_misfit(self, space: Any) -> str | None:
        if isinstance(space, Discrete):
            return None
        if not isinstance(space, Box) or not np.issubdtype(space.dtype, np.floating):
            return f"sac takes Box and Discrete actions; this environment's are {space}"
        if not space.is_bounded():
            return f"sac takes bounded actions; this environment's are {space}"
        return None

    def training(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "actor_lr": self.lr,
            "critic_lr": self.lr,
            "alpha_lr": self.alpha_lr,
            "gamma": self.gamma,
            "tau": self.tau,
            "initial_alpha": self.initial_alpha,
            "target_entropy": self.target_entropy,
            "n_step": self.n_step,
            "train_batch_size_per_learner": self.train_batch_size,
            "training_intensity": float(self.training_intensity or self.train_batch_size),
            "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": self.replay_capacity},
            "num_steps_sampled_before_learning_starts": self.learning_starts,
            "twin_q": self.twin_q,
            "grad_clip": self.grad_clip,
        }

    def config(self, recipe: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
        made = super().config(recipe, facts)
        made.algo_class = ReplaySac
        made.env_runners(rollout_fragment_length=self.fragment_length)
        made.reporting(min_time_s_per_iteration=None, min_sample_timesteps_per_iteration=self.steps_per_iteration)
        return made

    def model_settings(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "fcnet_hiddens": self.hidden,
            "fcnet_activation": "relu",
            "head_fcnet_hiddens": [],
            "fusionnet_hiddens": self.hidden[-1:],
            "fusionnet_activation": "relu",
        }

    def extra_state(self, algorithm: Any) -> dict[str, Any]:
        return replay_state(algorithm)

    def load_extra_state(self, algorithm: Any, state: Mapping[str, Any]) -> None:
        load_replay_state(algorithm, state)
