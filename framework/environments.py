"""Environments of reinforcement learning: their facts, their check before a run, and what watches over them in one.

It is imported where a run is prepared: gymnasium is an optional dependency.
"""

from __future__ import annotations

import json
import math
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

from raycipe.framework.errors import NotStarted, RunError
from raycipe.framework.streams import numpy_generator

if TYPE_CHECKING:
    from raycipe.framework.contracts import Env

NUM_FEATURES_OUT = 64  # width of what a `model` beside `env` gives to the agent's heads, unless the recipe says
MAX_SEED = 2**31 - 1
CHECKED_STEPS = 20
FAILURE_FILE = "environment-failure.json"
FRAMEWORKS = ("site-packages/gymnasium/", "site-packages/ray/", "raycipe/framework/", "raycipe/launchers/")


# ---------------------------------------------------------------------------------------------- before the run


def facts(env: Env) -> dict[str, Any]:
    """What an environment tells of itself; fills `FromData` arguments of models: `input_shape` (of an observation),
    `num_features` (its length when flattened), `num_outputs` (features that the agent's heads read), `num_actions`
    (of a discrete action), `action_shape`."""
    made = env.make()
    try:
        observations, actions = made.observation_space, made.action_space
    finally:
        made.close()
    shape = [int(size) for size in observations.shape or ()]
    found: dict[str, Any] = {"num_outputs": NUM_FEATURES_OUT, "observation_space": str(observations)}
    found["action_space"] = str(actions)
    discrete = getattr(observations, "n", None)
    if discrete is not None:  # agents read it as a one-hot vector
        shape = [int(discrete)]
    if shape:
        found |= {"input_shape": shape, "num_features": int(np.prod(shape))}
    if getattr(actions, "n", None) is not None:
        found["num_actions"] = int(actions.n)
    if getattr(actions, "shape", None):
        found["action_shape"] = [int(size) for size in actions.shape]
    return found


def check_environment(env: Env) -> None:
    """Raise NotStarted unless the environment keeps gymnasium's contract (its own checker: spaces, seeds, types)."""
    made = env.make()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice on bounds and dtypes, not mistakes
            check_env(made, skip_render_check=True, skip_close_check=True)
            _check_observations(made)
    except Exception as error:  # the checker asserts, and the environment may raise anything
        text = " ".join(str(error).split()) or type(error).__name__
        hint = f"{user_frame(error)}\n" if user_frame(error) else ""
        hint += "gymnasium.utils.env_checker.check_env(env) shows it alone"
        raise NotStarted("env", f"it fails gymnasium's check: {text}", hint, "env") from error
    finally:
        with suppress(Exception):
            made.close()


def _check_observations(made: Any) -> None:
    """Shapes and types that gymnasium's checker only warns of. Values beyond the declared bounds are let pass."""
    made.action_space.seed(0)
    _check_observation(made.reset(seed=0)[0], made.observation_space, "reset")
    for step in range(1, CHECKED_STEPS + 1):
        observation, reward, terminated, truncated, _ = made.step(made.action_space.sample())
        _check_observation(observation, made.observation_space, f"step {step}")
        assert np.isfinite(float(reward)), f"the reward of step {step} is {reward}"
        if terminated or truncated:
            return


def _check_observation(observation: Any, space: Any, where: str) -> None:
    if not isinstance(space, gymnasium.spaces.Box):
        return
    found = np.asarray(observation)
    fits = np.can_cast(found.dtype, np.dtype(space.dtype or np.float32), "same_kind") and found.shape == space.shape
    wanted = f"{space.dtype} of shape {space.shape}"
    assert fits, f"{where} gave {found.dtype} of shape {found.shape}, where observation_space says {wanted}"


def check_agent(env: Env, agent: Any, recipe: Mapping[str, Any]) -> None:
    """Everything about an agent and its environment that can be known before the run. Raises NotStarted."""
    check_environment(env)
    made = env.make()
    try:
        misfit = agent.misfit(made.observation_space, made.action_space)
    finally:
        made.close()
    if misfit:
        raise NotStarted("agent", misfit, "take another agent, or an env wrapper that changes the space", "agent")
    try:
        agent.config(recipe, env.facts())
    except ValueError as error:
        argument, _, rest = str(error).partition(" ")
        known = argument in (recipe["agent"] if isinstance(recipe["agent"], Mapping) else {})
        where, text = (f"agent.{argument}", rest) if known else ("agent", str(error))
        raise NotStarted("agent", text, "", where) from error


def user_frame(error: BaseException) -> str:
    """`in FILE:LINE, FUNCTION` of the last frame that is neither gymnasium's, Ray's nor ours; else empty."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if not any(part in frame.filename for part in FRAMEWORKS)]
    return f"in {mine[-1].filename}:{mine[-1].lineno}, {mine[-1].name}" if mine else ""


# ---------------------------------------------------------------------------------------------- in the run


class Watched(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Seeds every episode, so that any of them can be played again alone, and turns what the environment raises, and
    numbers that are not finite, into errors that tell seed and step.

    The stream of seeds depends on the run's seed, the env runner and the seed that this copy's first `reset` is given
    (vectors give each copy another one), so that no two copies play the same episodes.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int, runner: int = 0, run_dir: str | None = None) -> None:
        super().__init__(env)
        self.seed, self.runner, self.run_dir = seed, runner, run_dir
        self.stream = numpy_generator(seed, "episodes", runner)
        self.episode_seed = self.steps = 0
        self.checks_actions = _is_real(env.action_space)
        self.checks_observations = _is_real(env.observation_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self.stream = numpy_generator(self.seed, "episodes", self.runner, seed)
        return self.begin(int(self.stream.integers(MAX_SEED)), options)

    def begin(self, seed: int, options: dict[str, Any] | None = None) -> Any:
        """Start the episode of exactly this seed."""
        self.episode_seed, self.steps = seed, 0
        try:
            return self.env.reset(seed=seed, options=options)
        except Exception as error:
            raise self.failure(f"raised {type(error).__name__}: {error}", user_frame(error)) from error

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.checks_actions and not np.isfinite(action).all():
            shown = np.array2string(np.asarray(action), precision=3, threshold=8)
            hint = "the policy's weights have become NaN: try a smaller agent.lr or an agent.grad_clip"
            raise self.failure(f"was given an action that is not finite, {shown}", hint, "agent")
        try:
            found = self.env.step(action)
        except Exception as error:
            raise self.failure(f"raised {type(error).__name__}: {error}", user_frame(error)) from error
        if not math.isfinite(found[1]):
            raise self.failure(f"gave a reward that is not finite, {float(found[1])}", "")
        if self.checks_observations and not np.isfinite(found[0]).all():
            raise self.failure("gave an observation that is not finite", "")
        return found

    def failure(self, what: str, hint: str, where: str = "env") -> RunError:
        place = f"at step {self.steps}" if self.steps else "in reset"
        runner = f" (env runner {self.runner})" if self.runner else ""
        text = f"the environment {what}, {place} of the episode with seed {self.episode_seed}{runner}"
        error = RunError("nonfinite" if where == "agent" else "env", text, hint, where)
        if self.run_dir is not None:
            report_failure(self.run_dir, error)
        return error


def _is_real(space: Any) -> bool:
    return isinstance(space, gymnasium.spaces.Box) and np.issubdtype(space.dtype, np.floating)


def report_failure(run_dir: str, error: RunError) -> None:
    """Leave the error in the run's folder: RLlib restarts what fails in an env runner, and would do so for ever."""
    entry = {"kind": error.kind, "message": error.message, "hint": error.hint, "where": error.where}
    with suppress(OSError):  # a full disk: the error goes its ordinary way too
        Path(run_dir, FAILURE_FILE).write_text(json.dumps(entry), encoding="utf-8")


def reported_failure(run_dir: str) -> RunError | None:
    """The failure that an env runner left, and forget it."""
    file = Path(run_dir, FAILURE_FILE)
    if not file.exists():
        return None
    entry = json.loads(file.read_text(encoding="utf-8"))
    file.unlink()
    return RunError(entry["kind"], entry["message"], entry["hint"], entry["where"])
