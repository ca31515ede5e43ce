"""Environments and agents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from raycipe.framework.contracts.component import Component


class Env(Component, ABC):
    """An environment, or a family of them with tasks."""

    @abstractmethod
    def make(self, task: Any = None, render_mode: str | None = None) -> Any:
        """A fresh `gymnasium.Env` whose randomness comes from `reset(seed=...)` alone; `render_mode` is None or
        `rgb_array`. Raises `RunError("env", ..., where="env.<argument>")` where it can't be made as asked."""

    def facts(self) -> dict[str, Any]:
        """What fills `FromData` arguments of a `model` beside `env`; see framework/environments.py."""
        from raycipe.framework.environments import facts

        return facts(self)

    def tasks(self, count: int, generator: np.random.Generator) -> list[Any]:
        """Tasks of the family (meta-RL), drawn with `generator`; an ordinary environment has the one task None."""
        return [None] * count


class Policy(ABC):
    """What an agent has learned, apart from the algorithm that trained it: picklable, on the CPU.

    `module` is the network, for measures that look at weights; its inputs are the agent's own affair.
    """

    module: nn.Module

    @abstractmethod
    def act(self, observations: np.ndarray) -> np.ndarray:
        """(n, *observation shape) as the environment gives them -> (n, *action shape) as it takes them, greedily."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """All that `act` depends on, by name: weights and, where observations are normalised, their statistics."""


class Agent(Component, ABC):
    """An RLlib algorithm on the new API stack."""

    @abstractmethod
    def misfit(self, observation_space: Any, action_space: Any) -> str | None:
        """Why the agent can't take an environment with these spaces (gymnasium's), or None. Asked before the run."""

    @abstractmethod
    def config(self, recipe: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
        """The `AlgorithmConfig`, without what the launcher sets: environment, resources, seeds, callbacks.

        `recipe` is the resolved one: its `model`, if there is one, is the torso of all networks. `facts` are the
        environment's. Raises ValueError, argument's name first, for settings that contradict each other.
        """

    @abstractmethod
    def policy(self, algorithm: Any) -> Policy:
        """The present policy of a running `Algorithm`."""

    def extra_state(self, algorithm: Any) -> dict[str, Any]:
        """State that RLlib's own checkpoints leave out (a replay buffer), as tensors, numbers, texts and containers."""
        return {}

    def load_extra_state(self, algorithm: Any, state: Mapping[str, Any]) -> None:
        """Take up what `extra_state` gave."""
