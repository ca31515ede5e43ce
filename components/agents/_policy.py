"""What an RLlib agent has learned, apart from the algorithm."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.utils.filter import RunningStat
from ray.rllib.utils.spaces.space_utils import unsquash_action
from torch import Tensor

from raycipe.framework.contracts import Policy

CLIP = 10.0  # of normalised observations, as RLlib's filter has it


class RllibPolicy(Policy):
    """An inference-only RLModule with the statistics that its observations are normalised by.

    Args:
        module: the RLModule; it is copied.
        weights: its state; newer than what the module holds.
        action_space: of the environment; the module's actions lie in [-1, 1] where it is bounded.
        statistics: mean and standard deviation of observations, or None if they are not normalised.
    """

    def __init__(
        self, module: Any, weights: Any, action_space: Any, statistics: tuple[np.ndarray, np.ndarray] | None
    ) -> None:
        self.module: Any = copy.deepcopy(module).cpu().eval()
        self.module.set_state(weights)
        self.action_space = action_space
        self.statistics = statistics

    def act(self, observations: np.ndarray) -> np.ndarray:
        if self.statistics is not None:
            mean, deviation = self.statistics
            observations = np.clip((observations - mean) / (deviation + 1e-8), -CLIP, CLIP)
        with torch.no_grad():
            batch = {Columns.OBS: torch.as_tensor(np.asarray(observations, dtype=np.float32))}
            found = self.module.forward_inference(batch)
            if Columns.ACTIONS in found:
                actions = found[Columns.ACTIONS]
            else:
                distribution = self.module.get_inference_action_dist_cls().from_logits(
                    found[Columns.ACTION_DIST_INPUTS]
                )
                actions = distribution.to_deterministic().sample()
        return np.stack([unsquash_action(action, self.action_space) for action in actions.cpu().numpy()])

    def tensors(self) -> dict[str, Tensor]:
        found = {f"module.{name}": tensor for name, tensor in self.module.state_dict().items()}
        if self.statistics is not None:
            found["observations.mean"] = torch.as_tensor(self.statistics[0])
            found["observations.deviation"] = torch.as_tensor(self.statistics[1])
        return found


def policy_of(algorithm: Any, normalised: bool) -> RllibPolicy:
    """The present policy: the learner's weights, in the module of the driver's env runner."""
    runner = algorithm.env_runner
    weights = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
    space = algorithm.env_runner.get_spaces()["__env_single__"][1]
    return RllibPolicy(runner.module, weights, space, _statistics(runner) if normalised else None)


def _statistics(runner: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation in the state of the one connector that normalises."""
    state = runner.get_state(components="env_to_module_connector")["env_to_module_connector"]
    (found,) = [part for name, part in _walk(state) if name == "running_stats"]
    (entry,) = found
    running = RunningStat.from_state(entry)
    return np.array(running.mean), np.array(running.std)


def _walk(value: Any) -> Any:
    if isinstance(value, dict):
        for name, child in value.items():
            yield name, child
            yield from _walk(child)
