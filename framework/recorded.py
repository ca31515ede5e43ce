"""The shapes of what result.json and provenance.json hold, as far as Raycipe reads them: an edited or foreign file is
told as damaged, wherever in it the fault is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from raycipe.framework.files import number

Shape = Callable[[Any], bool]


def text(value: Any) -> bool:
    return isinstance(value, str)


def whole(value: Any) -> bool:
    return type(value) is int


def real(value: Any) -> bool:
    return isinstance(number(value) if isinstance(value, str) else value, (int, float))


def optional(shape: Shape) -> Shape:
    return lambda value: value is None or shape(value)


def record(**needed: Shape) -> Shape:
    """A map that has these entries; others may be there, too."""
    return lambda value: isinstance(value, dict) and all(shape(value.get(name)) for name, shape in needed.items())


def records(**needed: Shape) -> Shape:
    each = record(**needed)
    return lambda value: isinstance(value, list) and all(map(each, value))


def mapped(shape: Shape) -> Shape:
    return lambda value: isinstance(value, dict) and all(map(shape, value.values()))


def listed(shape: Shape) -> Shape:
    return lambda value: isinstance(value, list) and all(map(shape, value))


FINDINGS = record(  # of the measures of one checkpoint
    values=mapped(real), artifacts=records(path=text), skipped=records(component=text, why=text), seconds=real
)
# Every entry may be missing or null.
RESULT: Mapping[str, Shape] = {
    "format": whole,
    **dict.fromkeys(("status", "name", "run_id", "recipe_hash", "stopped"), text),
    **dict.fromkeys(("exit_code", "steps", "attempts", "examples", "bytes_sent"), real),
    **dict.fromkeys(("seconds", "epochs"), real),
    "final": mapped(optional(real)),
    "best": mapped(record(value=real, step=whole)),
    "expect": records(metric=text, verdict=text),
    "checkpoints": records(step=whole, path=text),
    "skipped": records(component=text, why=text),
    "artifacts": records(),  # the report looks at their paths itself
    "error": record(message=text, type=optional(text), where=optional(text)),
}
PROVENANCE: Mapping[str, Shape] = {
    "format": whole,
    **dict.fromkeys(("recipe_hash", "launcher", "created", "finished", "python", "platform"), text),
    **dict.fromkeys(("packages", "cpu", "raycipe", "changes"), record()),
    "recipe": record(git=optional(record(commit=text))),
    "command": listed(text),
    "attempts": records(started=text, how=text, ended=optional(text)),
    "plugins": records(name=text, origin=text, folder=text),
    "gpus": records(name=text),
    "data": records(),
}


def is_sound(content: Any, shapes: Mapping[str, Shape]) -> bool:
    """Whether the parts that are read have the shape that is written."""
    return isinstance(content, dict) and all(optional(shape)(content.get(name)) for name, shape in shapes.items())
