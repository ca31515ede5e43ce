"""The wrappers that a recipe may put around an environment, and their arguments checked by name.

Only those stand here that keep the reward's meaning for evaluation and learn nothing themselves: normalising belongs
to the agent, whose statistics are saved with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from gymnasium import Env, wrappers

from raycipe.framework.errors import RunError
from raycipe.framework.words import listed, nearest

ALLOWED: dict[str, type] = {
    "clip_action": wrappers.ClipAction,
    "clip_reward": wrappers.ClipReward,
    "delay_observation": wrappers.DelayObservation,
    "flatten_observation": wrappers.FlattenObservation,
    "frame_stack": wrappers.FrameStackObservation,
    "grayscale_observation": wrappers.GrayscaleObservation,
    "max_and_skip": wrappers.MaxAndSkipObservation,
    "rescale_action": wrappers.RescaleAction,
    "rescale_observation": wrappers.RescaleObservation,
    "resize_observation": wrappers.ResizeObservation,
    "sticky_action": wrappers.StickyAction,
    "time_aware_observation": wrappers.TimeAwareObservation,
}


def named(entry: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """(name, arguments) of an entry of `wrappers`."""
    if isinstance(entry, str):
        return entry, {}
    arguments = dict(entry)
    return str(arguments.pop("wrapper", "")), arguments


def check_names(entries: list[Any]) -> None:
    """Raise ValueError for a wrapper that is not allowed, or an argument that it does not take."""
    for entry in entries:
        name, arguments = named(entry)
        if name not in ALLOWED:
            near = nearest(name, list(ALLOWED))
            hint = f"did you mean `{near}`?" if near else f"known: {', '.join(ALLOWED)}"
            raise ValueError(f"wrappers: no wrapper `{name}`; {hint}" if name else f"wrappers: {MISSING}")
        unknown = unknown_argument(ALLOWED[name], arguments, skip=2)
        if unknown:
            raise ValueError(f"wrappers: `{name}` {unknown}")


MISSING = "an entry with arguments names its wrapper, e.g. {wrapper: frame_stack, stack_size: 4}"


def wrap(env: Env[Any, Any], entries: list[Any]) -> Env[Any, Any]:
    """The environment inside its wrappers, the first innermost. Raises RunError where one does not fit."""
    for number, entry in enumerate(entries):
        name, arguments = named(entry)
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()}
        try:
            env = ALLOWED[name](env, **values)
        except Exception as error:  # gymnasium asserts; whatever it is, this wrapper does not fit here
            reason = " ".join(str(error).split())
            text = f"`{name}` can't wrap this environment" + (f": {reason}" if reason else "")
            raise RunError(
                "env", text, f"its observations: {env.observation_space}", f"env.wrappers.{number}"
            ) from error
    return env


def unknown_argument(cls: Any, arguments: Mapping[str, Any], skip: int = 1, hidden: tuple[str, ...] = ()) -> str | None:
    """Which argument a class does not take, in words, or None. The first `skip` parameters (`self`) are given by us,
    and so are the `hidden` ones."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[skip:]
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        parameters += _inherited(cls)
    named_ones = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    names = [name for name in named_ones if name not in hidden]
    for name in arguments:
        if name not in names:
            near = nearest(name, names)
            return f"has no argument `{name}`; " + (f"did you mean `{near}`?" if near else f"known: {listed(names)}")
    return None


def _inherited(cls: Any) -> list[inspect.Parameter]:
    """What a class whose constructor takes `**kwargs` passes on to its bases."""
    found: list[inspect.Parameter] = []
    for base in cls.__mro__[1:-1]:
        if "__init__" in vars(base):
            found += list(inspect.signature(base.__init__).parameters.values())[1:]
    return found
