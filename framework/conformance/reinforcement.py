"""Promises of environments and agents."""

from __future__ import annotations

from typing import Any

import numpy as np

from raycipe.framework.conformance.example import Example
from raycipe.framework.errors import RunError
from raycipe.framework.registry import build

STEPS = 20
SEED = 3


def keeps_gymnasiums_contract(example: Example) -> None:
    """gymnasium's own checker finds nothing."""
    from raycipe.framework.environments import check_environment

    try:
        check_environment(example.make())
    except RunError as error:
        raise AssertionError(str(error)) from error


def equal_seeds_give_equal_episodes(example: Example) -> None:
    """Two copies, reset with one seed and given the same actions, agree in every observation and reward."""
    first, again, other = (_episode(example.make().make(), seed) for seed in (SEED, SEED, SEED + 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True)), "the same seed gave another episode"
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=False)), "the seed changes nothing"


def _episode(env: Any, seed: int) -> list[np.ndarray]:
    env.action_space.seed(0)
    found = [np.asarray(env.reset(seed=seed)[0])]
    for _ in range(STEPS):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        found += [np.asarray(observation), np.asarray(reward)]
        if terminated or truncated:
            break
    env.close()
    return found


def takes_the_environment_of_its_recipe(example: Example) -> None:
    """`misfit` has nothing against it, and says something about spaces that no agent takes."""
    from gymnasium.spaces import Text

    env = build(example.recipe["env"], "envs", "env").make()
    agent = example.make()
    assert agent.misfit(env.observation_space, env.action_space) is None
    for spaces in ((Text(3), env.action_space), (env.observation_space, Text(3))):
        reason = agent.misfit(*spaces)
        assert isinstance(reason, str) and reason, f"it takes {spaces}"
    env.close()


def its_settings_are_ones_that_rllib_accepts(example: Example) -> None:
    """The configuration passes RLlib's own validation, with the recipe's model and without."""
    facts = build(example.recipe["env"], "envs", "env").facts()
    recipes = [example.recipe, {**example.recipe, "model": {"type": "mlp", "hidden": [8]}}]
    for recipe in recipes:
        config = example.make().config(recipe, facts)
        resources = recipe.get("resources") or {}
        config.env_runners(num_env_runners=resources.get("num_env_runners", 0))
        config.environment("an-environment")
        config.validate()


ENVS = (keeps_gymnasiums_contract, equal_seeds_give_equal_episodes)
AGENTS = (takes_the_environment_of_its_recipe, its_settings_are_ones_that_rllib_accepts)
