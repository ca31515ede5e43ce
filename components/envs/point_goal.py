"""A point walks to a goal on an arc: a family of tasks that differ in where the goal is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import gymnasium
import numpy as np

from raycipe.framework.arguments import Count, Length, Positive
from raycipe.framework.contracts import Env
from raycipe.framework.registry import register

BOUND = 2.0  # positions stay in [-BOUND, BOUND]²


@register
class PointGoal(Env):
    """A point in the plane that walks to a goal on an arc around its start.

    p <- clip(p + step · clip(a, -1, 1), -2, 2) from p = 0; the reward is -|p - g| (dense), or 1 - |p - g| within
    sparse_radius of the goal g and 0 elsewhere (sparse). A task is an angle: g = radius · (cos, sin). Unless a task is
    given, each episode draws one. Episodes never end early; an agent that does not see the goal has to search for it.

    Args:
        horizon: steps of an episode
        step: how far the point walks in one step, at most, along each axis
        radius: distance of the goal from the start
        arc: smallest and largest angle of the goal, in radians
        reward: dense tells the distance in every step, sparse only near the goal
        sparse_radius: how near is near
        show_goal: whether observations end with the goal's position

    Reference:
        L. Zintgraf et al., VariBAD: Variational Bayes-Adaptive Deep RL via Meta-Learning, JMLR 22, 2021 (the family).

    Recipe:
        env: {type: point_goal, show_goal: true}
        agent: {type: ppo, lr: 1e-3}
        train: {env_steps: 40000}
    """

    def __init__(
        self,
        horizon: Count = 20,
        step: Positive = 0.1,
        radius: Positive = 1.0,
        arc: Annotated[list[float], Length(2, 2)] = [0.0, 3.14159265],  # noqa: B006 (never changed)
        reward: Literal["dense", "sparse"] = "dense",
        sparse_radius: Positive = 0.3,
        show_goal: bool = False,
    ) -> None:
        if arc[0] > arc[1]:
            raise ValueError(f"arc must not fall: from {arc[0]} to {arc[1]}")
        self.horizon = horizon
        self.step = step
        self.radius = radius
        self.arc = arc
        self.reward = reward
        self.sparse_radius = sparse_radius
        self.show_goal = show_goal

    def make(self, task: Any = None, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        made = PointGoalEnv(self, render_mode)
        made.set_task(task)
        return made

    def tasks(self, count: int, generator: np.random.Generator) -> list[float]:
        """Angles of goals."""
        return [float(generator.uniform(self.arc[0], self.arc[1])) for _ in range(count)]


def reward_at(position: np.ndarray, goal: np.ndarray, kind: str, sparse_radius: float) -> float:
    """The reward at a position, (2,) each."""
    distance = float(np.linalg.norm(position - goal))
    if kind == "dense":
        return -distance
    return 1.0 - distance if distance <= sparse_radius else 0.0


class PointGoalEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """The environment, with the protocol of tasks: `sample_task`, `set_task`, `task_vector`, `task_id`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (gymnasium's own form)

    def __init__(self, family: PointGoal, render_mode: str | None = None) -> None:
        self.family, self.render_mode = family, render_mode
        size = 4 if family.show_goal else 2
        reach = max(BOUND, family.radius)
        self.observation_space = gymnasium.spaces.Box(-reach, reach, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.task: float | None = None
        self._given = False
        self.position, self.steps = np.zeros(2), 0

    def sample_task(self, generator: np.random.Generator) -> float:
        return self.family.tasks(1, generator)[0]

    def set_task(self, task: float | None) -> None:
        """The goal's angle from the next reset on; None draws one at each reset."""
        self.task, self._given = task, task is not None

    def task_vector(self) -> np.ndarray:
        return self._goal().astype(np.float32)

    @property
    def task_id(self) -> str:
        return f"angle {self.task:.3f}"

    def _goal(self) -> np.ndarray:
        angle = self.task or 0.0
        return self.family.radius * np.array([np.cos(angle), np.sin(angle)])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        if not self._given:
            self.task = self.sample_task(self.np_random)
        self.position, self.steps = np.zeros(2), 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> Any:
        family = self.family
        walked = self.position + family.step * np.clip(action, -1.0, 1.0)
        self.position, self.steps = np.clip(walked, -BOUND, BOUND), self.steps + 1
        reward = reward_at(self.position, self._goal(), family.reward, family.sparse_radius)
        return self._observation(), reward, False, self.steps >= family.horizon, {}

    def _observation(self) -> np.ndarray:
        parts = [self.position, self._goal()] if self.family.show_goal else [self.position]
        return np.concatenate(parts).astype(np.float32)

    def render(self) -> Any:
        """A picture of 160 by 160 pixels: the point dark, the goal green."""
        side, reach = 160, max(BOUND, self.family.radius)
        picture = np.full((side, side, 3), 255, np.uint8)
        rows, columns = np.mgrid[0:side, 0:side]
        for place, color in ((self._goal(), (89, 161, 79)), (self.position, (40, 40, 40))):
            column, row = (place[0] / reach + 1) / 2 * side, (1 - place[1] / reach) / 2 * side
            picture[(columns - column) ** 2 + (rows - row) ** 2 <= 30] = color
        return picture
