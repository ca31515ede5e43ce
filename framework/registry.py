"""Finds components by kind and type, and builds them from a recipe's values.

A component's folder is its kind and its file name its type; a file is imported when a recipe names it and not before.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from raycipe.framework import declaration, plugins
from raycipe.framework.arguments import Default, Range
from raycipe.framework.catalogue import is_type
from raycipe.framework.contracts import KINDS, Component
from raycipe.framework.errors import Problem, RecipeError
from raycipe.framework.tree import Node, Place, plain

EXTRAS = {  # package -> extra that brings it
    "gymnasium": "rl",
    "mujoco": "rl",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "mici": "causal",
    "xgboost": "boosting",
    "causaldata": "causal-data",
    "econml": "causal-data",
}

C = TypeVar("C", bound=type[Component])
_classes: dict[tuple[str, str], type[Component]] = {}


def register(cls: C) -> C:
    """Mark a class as the component of its file: the folder is its kind, the file name its type.

    Raises RecipeError (code `plugin`) if the class does not fit its folder.
    """
    package, _, module = cls.__module__.rpartition(".")
    root, _, kind = package.rpartition(".")
    file = getattr(sys.modules[cls.__module__], "__file__", None) or cls.__module__
    if root not in [known.package for known in plugins.roots()]:
        raise _wrong(
            file, f"{cls.__name__} lies outside raycipe.components, every plugin and every --components folder"
        )
    if kind not in KINDS:
        raise _wrong(file, f"no kind is named `{kind}`", f"known kinds: {', '.join(sorted(KINDS))}")
    if not is_type(module):
        raise _wrong(file, f"`{module}` can't be a type", "rename the file: lower-case words with _, no Python keyword")
    if not issubclass(cls, KINDS[kind]):
        homes = [name for name, contract in KINDS.items() if issubclass(cls, contract)]
        hint = f"it belongs into {homes[0]}/" if homes else f"derive it from {KINDS[kind].__name__}"
        raise _wrong(file, f"{cls.__name__} does not derive from {KINDS[kind].__name__}, the contract of {kind}", hint)
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise _wrong(file, f"{cls.__name__} leaves out {', '.join(missing)}", f"{kind} must define them")
    other = _classes.get((kind, module))
    if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        where = getattr(sys.modules.get(other.__module__), "__file__", other.__module__)
        raise _wrong(
            file, f"{kind}/{module} is registered twice: {other.__name__} in {where}", "one component, one file"
        )
    cls.type_name = module
    _classes[kind, module] = cls
    return cls


def find(kind: str, type_: str) -> tuple[plugins.Root, Path] | None:
    """The root and file of a component, or None. Raises RecipeError if two roots have it."""
    if kind not in KINDS or not is_type(type_):
        return None
    files = [(root, Path(root.folder, kind, f"{type_}.py")) for root in plugins.roots()]
    there = [(root, file) for root, file in files if file.is_file()]
    if len(there) > 1:
        (_, first), (_, second) = there[:2]
        raise _wrong(first, f"{kind}/{type_} exists twice: also in {second}", "rename or remove one of the files")
    return there[0] if there else None


def get(kind: str, type_: str) -> type[Component]:
    """The class of a component; imports its file at first use.

    An exception of that import keeps its type and gets a note; RecipeError if there is no such component.
    """
    found = find(kind, type_)
    if found is None:
        raise RecipeError([Problem("unknown-type", Place(kind), "", f"no {kind}/{type_}", "see `raycipe list`", type_)])
    root, file = found
    try:
        import_module(f"{root.package}.{kind}.{type_}")
    except SystemExit as error:
        hint = f"it calls sys.exit({error.code!r}): leave out what a script does"
        raise _wrong(file, "ends Python when it is imported", hint) from error
    except BaseException as error:
        error.add_note(f"while importing {kind}/{type_} from {file} ({root.origin})")
        extra = EXTRAS.get((error.name or "").partition(".")[0]) if isinstance(error, ImportError) else None
        if extra:
            error.add_note(f"it needs an optional package: pip install 'raycipe[{extra}]'")
        raise
    if (kind, type_) not in _classes:
        raise _wrong(file, "registers no component", "put @register above its class")
    return _classes[kind, type_]


def make(name: str, /, facts: Mapping[str, Any] | None = None, **arguments: Any) -> Any:
    """Build `kind/type` from arguments written as in a recipe, defaults included.

    `make("optimizers/sgd", params=model.parameters(), lr=0.1, schedule="cosine")`
    """
    kind, _, type_ = name.partition("/")
    names = get(kind, type_).given
    given = {key: arguments.pop(key) for key in list(arguments) if key in names}
    return build({"type": type_, **arguments}, kind, "", given, facts)


def build(
    value: Any,
    kind: str,
    path: str = "",
    given: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Any:
    """Build the component that `value` (a Node, a map with `type`, or a type's name) tells, nested ones first.

    `given` holds what the framework supplies (an optimizer's `params`), `facts` what fills `FromData` arguments.
    A constructor's ValueError that begins with an argument's name becomes a located RecipeError where `value` is a
    Node; every other exception keeps its type and gets a note with path, component and arguments.
    """
    supplied = {name: list(thing) if isinstance(thing, Iterator) else thing for name, thing in (given or {}).items()}
    return _component(value, kind, _Context(supplied, facts or {}), path)  # an iterator would serve one component only


class _Context(NamedTuple):
    given: Mapping[str, Any]
    facts: Mapping[str, Any]


def _component(value: Any, kind: str, context: _Context, path: str) -> Any:
    raw = _raw(value)
    if isinstance(raw, Component):  # already built, as plain Python code may do
        return raw
    entries = {"type": raw} if isinstance(raw, str) else dict(raw)
    type_ = _raw(entries.pop("type"))
    cls = get(kind, type_)
    declared = declaration.parameters(cls)
    arguments: dict[str, Any] = {}
    for name, entry in entries.items():
        annotation = declared[name].annotation if name in declared else Any  # the constructor refuses unknown names
        arguments[name] = _realise(annotation, entry, context, _join(path, name))
    for name in declared.keys() - entries.keys():
        arguments.update(_silent(declared[name], kind, type_, context, value, path))
    supplied = {name: context.given[name] for name in cls.given if name in context.given}
    try:
        return cls(**supplied, **arguments)
    except Exception as error:  # any constructor's failure is told with its place in the recipe
        problem = _located(error, value, entries, path)
        if problem:
            raise RecipeError([problem]) from error
        words = {name: plain(entry) if isinstance(entry, Node) else entry for name, entry in entries.items()}
        error.add_note(f"while building {path or kind} = {kind}/{type_} with {words}")
        raise


def _silent(
    parameter: declaration.Parameter, kind: str, type_: str, context: _Context, value: Any, path: str
) -> dict[str, Any]:
    """The argument that the recipe does not set: from the facts, or a default that is itself a component."""
    name = parameter.name
    if parameter.fact in context.facts:
        fact = context.facts[parameter.fact or ""]
        _check_fact(parameter, fact, value, path)
        return {name: fact}
    if isinstance(parameter.default, Default):
        return {name: _realise(parameter.annotation, parameter.default.value, context, _join(path, name))}
    if parameter.fact and parameter.default is declaration.REQUIRED:
        reason = context.facts.get("missing", {}).get(parameter.fact)
        message = f"missing `{name}`, which {kind}/{type_} needs and the data does not tell ({parameter.fact})"
        raise RecipeError([Problem("missing", _place(value), path, message, reason or f"{name}: {parameter.help}")])
    return {}


def _check_fact(parameter: declaration.Parameter, fact: Any, value: Any, path: str) -> None:
    for member in (parameter.annotation, *declaration.members(parameter.annotation)):
        for word in declaration.unwrap(member)[1]:
            if isinstance(word, Range) and isinstance(fact, (int, float)) and not word.holds(fact):
                message = f"must be {word}, not {fact}, which the data tells as {parameter.fact}"
                raise RecipeError([Problem("out-of-range", _place(value), _join(path, parameter.name), message)])


def _realise(annotation: Any, value: Any, context: _Context, path: str) -> Any:
    """The Python value of one argument: components built, Nodes opened, containers as annotated."""
    bare = declaration.unwrap(annotation)[0]
    raw = _raw(value)
    for member in declaration.members(bare):
        inner = declaration.unwrap(member)[0]
        kind = declaration.kind_of(inner)
        if kind and isinstance(raw, (str, dict, Component)):
            return _component(value, kind, context, path)
        origin, args = get_origin(inner), get_args(inner)
        if origin is list and isinstance(raw, list):
            return [_realise(args[0], entry, context, f"{path}.{i}") for i, entry in enumerate(raw)]
        if origin is tuple and isinstance(raw, (list, tuple)):
            return tuple(_realise(args[i], entry, context, f"{path}.{i}") for i, entry in enumerate(raw))
        if origin is dict and isinstance(raw, dict):
            return {key: _realise(args[1], entry, context, f"{path}.{key}") for key, entry in raw.items()}
    return plain(value) if isinstance(value, Node) else value


def _located(error: Exception, value: Any, entries: Mapping[str, Any], path: str) -> Problem | None:
    """A ValueError that begins with an argument's name, as a mistake at that argument's place."""
    match = re.match(r"`?(\w+)`?:?\s+(.*)", str(error), re.DOTALL) if isinstance(error, ValueError) else None
    if match is None or not isinstance(value, Node):
        return None
    entry = entries.get(match[1])
    if not isinstance(entry, Node):
        return None
    return Problem("out-of-range", entry.at, _join(path, match[1]), match[2], value=plain(entry))


def _raw(value: Any) -> Any:
    return value.value if isinstance(value, (Node, Default)) else value


def _place(value: Any) -> Place:
    return value.at if isinstance(value, Node) else Place("recipe")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _wrong(file: str | Path, message: str, hint: str = "") -> RecipeError:
    return RecipeError([Problem("plugin", Place(str(file)), "", message, hint)])
