"""The recipe's `model` as the torso of an agent's networks.

RLlib's own modules build policy, values and Q functions from a catalog of parts. Here the part that reads observations
is a model of ours: features = act(model(observation)), (batch, num_outputs), from which linear heads read. Policy and
value function have a model each (unless the agent shares it), and so has each Q function; Q(s, a) reads the observation
and the action as one vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from gymnasium.spaces import Box
from ray.rllib.algorithms.dqn.dqn_catalog import DQNCatalog
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from ray.rllib.algorithms.sac.sac_catalog import SACCatalog
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.base import ENCODER_OUT, Encoder
from ray.rllib.core.models.configs import ModelConfig
from ray.rllib.core.models.torch.base import TorchModel
from torch import Tensor, nn

from raycipe.framework import plugins
from raycipe.framework.errors import NotStarted
from raycipe.framework.registry import build

KEY = "raycipe_torso"  # in RLlib's model config
ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


def torso(recipe: Mapping[str, Any], facts: Mapping[str, Any], activation: str) -> dict[str, Any]:
    """RLlib's model config for the recipe's `model`; {} without one. Raises NotStarted if it gives no features."""
    section = recipe.get("model")
    if section is None:
        return {}
    made = {
        "section": section,
        "facts": {name: value for name, value in facts.items() if name != "missing"},
        "activation": activation,
        "roots": [tuple(root) for root in plugins.roots()],
    }
    made["width"] = _width(section, facts)
    return {KEY: made, "head_fcnet_hiddens": []}


def _width(section: Any, facts: Mapping[str, Any]) -> int:
    """Number of features, found by one pass of shapes."""
    shape = facts.get("input_shape") or []
    with torch.device("meta"):
        model = build(section, "models", "model", facts=facts).eval()
        try:
            features = model(torch.zeros(2, *shape))
        except Exception as error:  # whatever the model says to such an input
            text = f"the model can't read observations of shape {shape}: {type(error).__name__}: {error}"
            raise NotStarted("model", text, "see `raycipe list models`", "model") from error
    if features.dim() != 2 or len(features) != 2:
        found = list(features.shape[1:])
        raise NotStarted("model", f"the model gives {found} for an observation; agents read a vector", "", "model")
    return int(features.shape[1])


@dataclass
class TorsoConfig(ModelConfig):  # type: ignore[misc]
    """What RLlib asks to build; `extra` numbers stand behind the observation (an action)."""

    made: Mapping[str, Any] = field(default_factory=dict)
    extra: int = 0

    @property
    def output_dims(self) -> tuple[int, ...]:
        return (self.made["width"],)

    def build(self, framework: str = "torch") -> Torso:
        return Torso(self)


class Torso(TorchModel, Encoder):  # type: ignore[misc]
    """A model of ours as RLlib's encoder."""

    def __init__(self, config: TorsoConfig) -> None:
        TorchModel.__init__(self, config)
        Encoder.__init__(self, config)
        made = config.made
        plugins.adopt(list(made["roots"]))  # a learner of its own process knows only what it is told
        facts = dict(made["facts"])
        if config.extra:
            facts["num_features"] = facts["num_features"] + config.extra
            facts["input_shape"] = [facts["num_features"]]
        self.model: nn.Module = build(made["section"], "models", "model", facts=facts)
        self.activation = ACTIVATIONS[made["activation"]]
        self.extra = config.extra

    def _forward(self, inputs: Mapping[str, Any], **ignored: Any) -> dict[str, Tensor]:
        observed = inputs[Columns.OBS].float()
        if self.extra:
            observed = torch.cat([observed.flatten(1), inputs[Columns.ACTIONS].float()], dim=1)
        return {ENCODER_OUT: self.activation(self.model(observed))}


class _Torsos:
    """What all catalogs share: the encoder's config."""

    @classmethod
    def _get_encoder_config(
        cls, observation_space: Any, model_config_dict: Mapping[str, Any], action_space: Any = None
    ) -> TorsoConfig:
        return TorsoConfig(input_dims=observation_space.shape, made=model_config_dict[KEY])


class TorsoPPOCatalog(_Torsos, PPOCatalog):  # type: ignore[misc]
    """For PPO and APPO."""


class TorsoDQNCatalog(_Torsos, DQNCatalog):  # type: ignore[misc]
    """For DQN."""


class TorsoSACCatalog(_Torsos, SACCatalog):  # type: ignore[misc]
    """For SAC: a Q function of continuous actions reads observation and action through one model."""

    def _build_qf_encoder_continuous(self, framework: str) -> Torso:
        space = self.action_space
        assert isinstance(space, Box) and space.shape is not None  # the caller has looked
        made = self._model_config_dict[KEY]
        return TorsoConfig(made=made, extra=int(torch.tensor(space.shape).prod())).build(framework)
