"""The `config` map of agents: what it must not hold is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from raycipe.framework.registry import make


@pytest.mark.parametrize(
    ("agent", "settings", "words"),
    [
        (
            "ppo",
            {"batch_mod": "x"},
            "config holds `batch_mod`, which PPOConfig does not know; did you mean `batch_mode`?",
        ),
        ("ppo", {"lambda_": 0.9}, "config must not hold `lambda_`: it is the agent's argument `gae_lambda`"),
        ("sac", {"replay_buffer_config": 3}, "it is the agent's argument `replay_capacity`"),
        (
            "dqn",
            {"num_env_runners": 2},
            "config must not hold `num_env_runners`, which Raycipe sets: resources.num_env",
        ),
        ("ppo", {"evaluation_interval": 2}, "which Raycipe sets: train.eval_every and train.eval_episodes"),
        ("ppo", {"callbacks_on_episode_end": "x"}, "which Raycipe sets: a recipe holds no code"),
        ("ppo", {"batch_mode": 3}, "config holds batch_mode: 3, where RLlib's default is 'truncate_episodes'"),
        ("appo", {"vtrace": 1}, "config holds vtrace: 1, where RLlib's default is True"),
        ("dqn", {"num_atoms": 1.5}, "config holds num_atoms: 1.5, where RLlib's default is 1"),
        ("sac", {"vf_clip_param": 1.0}, "config holds `vf_clip_param`, which SACConfig does not know"),
    ],
)
def test_a_setting_that_does_not_belong_is_refused(agent: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        make(f"agents/{agent}", config=settings)
    assert words in str(caught.value)


def test_further_settings_reach_rllib_and_whole_numbers_stay_whole() -> None:
    agent = make("agents/dqn", config={"num_atoms": 51.0, "noisy": True})
    config = agent.config({"seed": 0}, {"num_actions": 2})
    assert config.num_atoms == 51 and isinstance(config.num_atoms, int) and config.noisy is True


def test_every_argument_that_stands_for_a_setting_of_rllib_names_one_that_exists() -> None:
    for name in ("ppo", "sac", "dqn", "appo"):
        agent = make(f"agents/{name}")
        known = {word.lstrip("_") for word in vars(agent.algorithm_config())}
        assert set(agent.arguments) - known == set(), name


def test_settings_that_contradict_each_other_are_told() -> None:
    with pytest.raises(ValueError, match="minibatch_size must be at most train_batch_size, 64"):
        make("agents/ppo", train_batch_size=64)
    agent = make("agents/ppo", anneal_lr=True)
    with pytest.raises(ValueError, match="anneal_lr needs train.env_steps"):
        agent.config({"train": {"iterations": 3}}, {})
    assert agent.config({"train": {"env_steps": 500}}, {}).lr == [[0, 3e-4], [500, 0.0]]
