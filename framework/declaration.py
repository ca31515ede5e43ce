"""Reads what a component declares: its constructor's parameters, their annotations, defaults and help."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from raycipe.framework.arguments import FromData
from raycipe.framework.contracts import KINDS, Component
from raycipe.framework.errors import Problem, RecipeError
from raycipe.framework.tree import Place

REQUIRED = inspect.Parameter.empty
_KIND_OF_CLASS = {contract: kind for kind, contract in KINDS.items()}
_ARGUMENT = re.compile(r"(\w+):\s*(.*)")


class Parameter(NamedTuple):
    """One argument of a component. `default` is `REQUIRED` where it has none; `fact` names what may fill it."""

    name: str
    annotation: Any
    default: Any
    help: str
    fact: str | None


def parameters(cls: type[Component]) -> dict[str, Parameter]:
    """The arguments of a component that a recipe may set, in the constructor's order.

    Raises RecipeError (code `plugin`) naming file and parameter for what a recipe could not express.
    """
    init = constructor(cls)
    if init is None:
        return {}
    hints = _hints(cls, init)
    helps = describe(cls)[1]
    found: dict[str, Parameter] = {}
    for name, parameter in list(inspect.signature(init).parameters.items())[1:]:
        if name in cls.given:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise declaration_error(cls, name, "an argument must be named: no *args, **kwargs or positional-only ones")
        if name not in hints:
            raise declaration_error(cls, name, "needs an annotation")
        found[name] = Parameter(name, hints[name], parameter.default, helps.get(name, ""), fact_of(hints[name]))
    return found


def constructor(cls: type[Component]) -> Any:
    """The `__init__` that the component's own classes define, or None where there is none."""
    for base in cls.__mro__:
        if "__init__" in base.__dict__:
            return base.__dict__["__init__"] if issubclass(base, Component) else None
    return None


def _hints(cls: type[Component], init: Any) -> dict[str, Any]:
    try:
        return get_type_hints(init, include_extras=True)
    except NameError as error:
        raise declaration_error(
            cls,
            error.name or "",
            f"its annotation can't be read ({error})",
            "import what annotations name at run time, not under TYPE_CHECKING",
        ) from error


def describe(cls: type) -> tuple[str, dict[str, str]]:
    """The docstring's first paragraph, and the help of each argument from its `Args:` block."""
    text = inspect.cleandoc(cls.__doc__ or "")
    summary = " ".join(text.partition("\n\n")[0].split())
    helps: dict[str, str] = {}
    name = ""
    for line in _block(text, "Args:"):
        match = _ARGUMENT.match(line[4:]) if not line[4:].startswith(" ") else None
        if match:
            name = match[1]
            helps[name] = match[2].strip()
        elif name and line.strip():
            helps[name] = f"{helps[name]} {line.strip()}".strip()
    return summary, helps


def block(cls: type, title: str) -> str:
    """The indented block below the line `title` of a docstring, without its indentation; empty if there is none."""
    lines = list(_block(inspect.cleandoc(cls.__doc__ or ""), title))
    return "\n".join(line[4:] for line in lines).strip("\n")


def text_between(cls: type, titles: tuple[str, ...]) -> str:
    """The docstring below its first paragraph, without the blocks of the given titles."""
    text = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[2]
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        inside = line.strip() in titles or (inside and (not line.strip() or line.startswith("    ")))
        if not inside:
            kept.append(line)
    return "\n".join(kept).strip()


def _block(text: str, title: str) -> Iterator[str]:
    lines = iter(text.splitlines())
    for line in lines:
        if line.strip() == title:
            break
    for line in lines:
        if line.strip() and not line.startswith("    "):
            return
        yield line


def kind_of(annotation: Any) -> str | None:
    """The kind whose contract an annotation is, if it is one."""
    return _KIND_OF_CLASS.get(annotation) if isinstance(annotation, type) else None


def unwrap(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The bare annotation and the words attached to it by `Annotated`."""
    if get_origin(annotation) is Annotated:
        bare, *words = get_args(annotation)
        return bare, tuple(words)
    return annotation, ()


def members(annotation: Any) -> tuple[Any, ...]:
    """The members of a union (a single annotation is a union of one)."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def fact_of(annotation: Any) -> str | None:
    """The fact that may fill an argument, from `FromData` at the top or in a member of its union."""
    for member in (annotation, *members(unwrap(annotation)[0])):
        for word in unwrap(member)[1]:
            if isinstance(word, FromData):
                return word.fact
    return None


def declaration_error(cls: type, parameter: str, message: str, hint: str = "") -> RecipeError:
    """An error at the component's file, naming the parameter."""
    init = constructor(cls)
    code = getattr(init, "__code__", None)
    file = code.co_filename if code else inspect.getfile(cls)
    place = Place(file, code.co_firstlineno, 1) if code else Place(file)
    return RecipeError(
        [Problem("plugin", place, f"{cls.__name__}.{parameter}" if parameter else cls.__name__, message, hint)]
    )
