"""What all agents share: spaces, the parts of the configuration that do not depend on the algorithm, the policy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from raycipe.components.agents import _settings
from raycipe.components.agents._policy import policy_of
from raycipe.components.agents._torso import torso
from raycipe.framework.contracts import Agent, Policy

CAN_FLATTEN = "env.wrappers: [flatten_observation] makes a vector of them"
IMAGE_DIMENSIONS = 3
COMMON = {
    "lr": "lr",
    "gamma": "gamma",
    "grad_clip": "grad_clip",
    "grad_clip_by": "grad_clip",
    "num_envs_per_env_runner": "num_envs_per_env_runner",
    "train_batch_size": "train_batch_size",
    "_train_batch_size_per_learner": "train_batch_size",
    "train_batch_size_per_learner": "train_batch_size",
}


class RllibAgent(Agent):
    """An agent whose class attributes name RLlib's parts and whose `training` gives its settings."""

    algorithm_config: ClassVar[type]  # RLlib's class of the configuration
    catalog: ClassVar[type]  # builds the recipe's model into the algorithm's module
    activation: ClassVar[str] = "tanh"  # after the recipe's model
    arguments: ClassVar[Mapping[str, str]] = {}  # RLlib's name -> argument, beside COMMON
    normalize_observations: bool = False
    num_envs_per_env_runner: int = 1

    @abstractmethod
    def training(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of `AlgorithmConfig.training`."""

    def model_settings(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of RLlib's own networks and heads."""
        return {}

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """For constructors: raises ValueError for a wrong `config` map."""
        if settings:
            _settings.check(settings, self.algorithm_config(), {**COMMON, **self.arguments})

    def misfit(self, observation_space: Any, action_space: Any) -> str | None:
        return observations_misfit(observation_space) or self.actions_misfit(action_space)

    def actions_misfit(self, space: Any) -> str | None:
        real = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)
        if real or isinstance(space, (Discrete, MultiDiscrete)):
            return None
        return f"{self.type_name} takes Box, Discrete and MultiDiscrete actions; this environment's are {space}"

    def config(self, recipe: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
        made: Any = self.algorithm_config()
        made.training(**self.training(recipe))
        made.env_runners(num_envs_per_env_runner=self.num_envs_per_env_runner)
        if self.normalize_observations:
            made.env_runners(env_to_module_connector=normaliser)
        own = torso(recipe, facts, self.activation)
        spec = RLModuleSpec(catalog_class=self.catalog) if own else None
        made.rl_module(model_config={**self.model_settings(facts), **own}, **({"rl_module_spec": spec} if spec else {}))
        _settings.apply(getattr(self, "settings", {}), made)
        return made

    def policy(self, algorithm: Any) -> Policy:
        return policy_of(algorithm, self.normalize_observations)


def normaliser(env: Any = None, spaces: Any = None, device: Any = None) -> Any:
    """RLlib's running mean and standard deviation of observations, merged over env runners, saved in checkpoints."""
    from ray.rllib.connectors.env_to_module import MeanStdFilter

    return MeanStdFilter()


def observations_misfit(space: Any) -> str | None:
    if not isinstance(space, Box):
        return f"agents take Box observations; this environment's are {space}: {CAN_FLATTEN}"
    dimensions = len(space.shape or ())
    if dimensions not in (1, IMAGE_DIMENSIONS):
        return f"agents take vectors or images; this environment's observations have {dimensions} dimensions, {space}"
    return None


def annealed(lr: float, anneal: bool, recipe: Mapping[str, Any]) -> Any:
    """A learning rate, or RLlib's schedule of one that falls to 0 at the end of `train.env_steps`."""
    steps = (recipe.get("train") or {}).get("env_steps")
    if not anneal:
        return lr
    if not steps:
        raise ValueError("anneal_lr needs train.env_steps: the rate falls to 0 over them")
    return [[0, lr], [int(steps), 0.0]]
