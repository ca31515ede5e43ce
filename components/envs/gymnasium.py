"""Any environment that is registered with gymnasium."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import gymnasium
from gymnasium import error as errors

from raycipe.components.envs._mujoco import take_warnings
from raycipe.components.envs._wrappers import check_names, unknown_argument, wrap
from raycipe.framework.arguments import Count, Pattern
from raycipe.framework.contracts import Env
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register
from raycipe.framework.words import nearest

Setting = bool | float | str | list[float] | None
OWN = ("render_mode", "max_episode_steps", "autoreset", "disable_env_checker")


@register
class Gymnasium(Env):
    """An environment of gymnasium's registry: classic control, MuJoCo, and what installed packages register.

    Args:
        id: its registered name with version, e.g. HalfCheetah-v5
        max_episode_steps: an episode is cut off after so many steps; null keeps the registered limit
        wrappers: what stands around it, innermost first: a name, or {wrapper: name} with the wrapper's arguments
        kwargs: arguments of the environment itself, e.g. {exclude_current_positions_from_observation: false}

    Reference:
        M. Towers et al., Gymnasium: A Standard Interface for Reinforcement Learning Environments, 2024.

    Recipe:
        env: {type: gymnasium, id: CartPole-v1, max_episode_steps: 200}
        agent: ppo
        train: {env_steps: 20000}
    """

    def __init__(
        self,
        id: Annotated[
            str,
            Pattern(
                "^([A-Za-z0-9_.-]+/)?[A-Za-z0-9_.-]+$", "a registered id, e.g. CartPole-v1 (never a module's path)"
            ),
        ],
        max_episode_steps: Count | None = None,
        wrappers: list[str | dict[str, Setting]] = [],  # noqa: B006 (never changed)
        kwargs: dict[str, Setting] = {},  # noqa: B006 (never changed)
    ) -> None:
        if id not in gymnasium.registry:
            raise ValueError(f"id {unknown_id(id)}")
        check_names(wrappers)
        for name in OWN:
            if name in kwargs:
                raise ValueError(f"kwargs must not hold `{name}`: Raycipe sets it")
        self.id = id
        self.max_episode_steps = max_episode_steps
        self.wrappers = wrappers
        self.kwargs = kwargs

    def make(self, task: Any = None, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        self._check_kwargs()
        take_warnings()  # the check has imported what the environment needs
        try:
            # gymnasium's checker runs once before a run, not at every first step of every copy
            made = gymnasium.make(
                self.id,
                max_episode_steps=self.max_episode_steps,
                disable_env_checker=True,
                **({"render_mode": render_mode} if render_mode else {}),
                **self.kwargs,
            )
        except (errors.DependencyNotInstalled, ImportError) as error:
            raise _missing(self.id, error) from error
        except Exception as error:  # an environment's own constructor can raise anything
            raise RunError("env", f"{self.id} could not be made: {type(error).__name__}: {error}", "", "env") from error
        return wrap(made, self.wrappers)

    def _check_kwargs(self) -> None:
        entry = gymnasium.spec(self.id).entry_point
        try:
            cls = _load(entry) if isinstance(entry, str) else entry
        except (errors.DependencyNotInstalled, ImportError) as error:
            raise _missing(self.id, error) from error
        unknown = unknown_argument(cls, self.kwargs, hidden=OWN) if isinstance(cls, type) else None
        if unknown:
            raise RunError("env", f"{self.id} {unknown}", "", "env.kwargs")


def _load(entry_point: str) -> Any:
    module, _, name = entry_point.partition(":")
    return getattr(importlib.import_module(module), name)


def _missing(id: str, error: Exception) -> RunError:
    return RunError("env", f"{id} needs a package that is not installed: {error}", "pip install 'raycipe[rl]'", "env")


def unknown_id(id: str) -> str:
    """What is wrong with an id that is not registered, with the nearest one that is."""
    name, _, _ = id.rpartition("-v")
    known_here = [spec for spec in gymnasium.registry.values() if spec.namespace is None and spec.name == (name or id)]
    versions = sorted(spec.version or 0 for spec in known_here)
    if versions:
        known = ", ".join(f"{name or id}-v{number}" for number in versions)
        return f"`{id}` is not registered in this version of gymnasium; known: {known}"
    near = nearest(id, list(gymnasium.registry))
    hint = f"did you mean `{near}`?" if near else "gymnasium.pprint_registry() lists the ids"
    return f"no environment is registered as `{id}`; {hint}"
