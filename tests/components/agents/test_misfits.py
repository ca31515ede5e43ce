"""Which spaces agents take, and what they say of others."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from raycipe.framework.errors import NotStarted
from raycipe.framework.registry import make

VECTOR = Box(-1, 1, (3,), np.float32)
ACTION = Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize(
    ("agent", "observations", "actions", "words"),
    [
        ("ppo", Discrete(5), ACTION, "agents take Box observations; this environment's are Discrete(5): env.wrappers"),
        ("ppo", Dict({"a": VECTOR}), ACTION, "agents take Box observations"),
        ("ppo", Box(0, 1, (3, 3)), ACTION, "agents take vectors or images; this environment's observations have 2 dim"),
        ("dqn", VECTOR, ACTION, "dqn takes Discrete actions; this environment's are Box(-1.0, 1.0, (2,), float32)"),
        ("sac", VECTOR, MultiDiscrete([2, 2]), "sac takes Box and Discrete actions; this environment's are MultiDisc"),
        ("sac", VECTOR, Box(-np.inf, np.inf, (2,)), "sac takes bounded actions"),
        ("appo", VECTOR, Dict({"a": ACTION}), "appo takes Box, Discrete and MultiDiscrete actions"),
    ],
)
def test_what_an_agent_can_not_take_is_told(agent: str, observations: object, actions: object, words: str) -> None:
    found = make(f"agents/{agent}").misfit(observations, actions)
    assert found is not None and words in found


@pytest.mark.parametrize(
    ("agent", "actions"), [("ppo", ACTION), ("ppo", Discrete(2)), ("appo", MultiDiscrete([2, 3])), ("sac", ACTION)]
)
def test_what_an_agent_can_take_is_no_misfit(agent: str, actions: object) -> None:
    assert make(f"agents/{agent}").misfit(VECTOR, actions) is None


def test_a_model_that_can_not_read_observations_is_told() -> None:
    facts = {"input_shape": [3], "num_features": 3, "num_outputs": 64}
    recipe = {"model": {"type": "mlp", "num_features": 5}, "train": {"env_steps": 1}}
    with pytest.raises(NotStarted, match=r"the model can't read observations of shape \[3\]") as caught:
        make("agents/ppo").config(recipe, facts)
    assert caught.value.where == "model"
