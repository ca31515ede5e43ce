"""The point family against values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from raycipe.components.envs.point_goal import reward_at
from raycipe.framework.registry import make


def test_the_rewards_are_the_formulas() -> None:
    goal = np.array([0.0, 1.0])
    assert reward_at(np.array([0.6, 0.2]), goal, "dense", 0.3) == pytest.approx(-1.0)
    assert reward_at(np.array([0.0, 0.8]), goal, "sparse", 0.3) == pytest.approx(0.8)
    assert reward_at(np.array([0.0, 0.6]), goal, "sparse", 0.3) == 0.0


def test_the_point_walks_as_far_as_its_step_and_stays_inside() -> None:
    env = make("envs/point_goal", horizon=30, step=0.1).make(task=0.0)
    observation, _ = env.reset(seed=0)
    assert observation.tolist() == [0.0, 0.0]
    observation, reward, terminated, truncated, _ = env.step(np.array([5.0, -0.5], np.float32))
    assert observation == pytest.approx([0.1, -0.05]) and reward == pytest.approx(-np.hypot(0.9, 0.05))
    assert not terminated and not truncated
    for _ in range(29):
        observation, _, _, truncated, _ = env.step(np.array([1.0, 0.0], np.float32))
    assert truncated and observation[0] == pytest.approx(2.0)


def test_a_task_is_an_angle_and_stays_until_another_is_set() -> None:
    family = make("envs/point_goal", arc=[0.5, 1.5], show_goal=True)
    angles = family.tasks(50, np.random.default_rng(0))
    assert all(0.5 <= angle <= 1.5 for angle in angles) and len(set(angles)) == 50
    env = family.make(task=1.0)
    goals = [env.reset(seed=seed)[0][2:] for seed in range(3)]
    assert all(goal == pytest.approx([np.cos(1.0), np.sin(1.0)]) for goal in goals)
    assert env.task_vector() == pytest.approx([np.cos(1.0), np.sin(1.0)]) and env.task_id == "angle 1.000"
    env.set_task(None)
    drawn = {tuple(env.reset(seed=seed)[0][2:].tolist()) for seed in range(5)}
    assert len(drawn) == 5


def test_a_hidden_goal_is_not_in_the_observation() -> None:
    env = make("envs/point_goal").make()
    assert env.reset(seed=0)[0].shape == env.observation_space.shape == (2,)


def test_a_falling_arc_is_refused() -> None:
    with pytest.raises(ValueError, match="arc must not fall"):
        make("envs/point_goal", arc=[2.0, 1.0])


def test_the_picture_shows_point_and_goal() -> None:
    env = make("envs/point_goal").make(task=0.0, render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (160, 160, 3)
    assert picture[80, 80].tolist() == [40, 40, 40] and picture[80, 120].tolist() == [89, 161, 79]
