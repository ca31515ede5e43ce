"""Reads `KEY=VALUE` words into one layer that does not depend on their order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from raycipe.framework.errors import Problem, RecipeError, shown
from raycipe.framework.events import MAX_DEPTH
from raycipe.framework.layers import from_layer
from raycipe.framework.reader import read_value
from raycipe.framework.syntax import refused_character
from raycipe.framework.tree import Node, Place

Path = tuple[str, ...]

_SEGMENT = r'(?:[A-Za-z_][A-Za-z0-9_@/-]*|[0-9]+|"(?:[^"\\]|\\["\\])*")'
_KEY = re.compile(rf"{_SEGMENT}(?:\.{_SEGMENT})*")
_BARE = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_@/-]*|[0-9]+)\Z")
_BEFORE_OVERRIDES = ("recipe", "extends", "profiles")  # they were read before an override is laid over


def overrides_layer(words: Sequence[str], problems: list[Problem] | None = None) -> Node:
    """The tree that the words set, its maps flagged as `patch`.

    Mistakes are added to `problems`, or raised as a RecipeError; a wrong word sets nothing.
    """
    found: list[Problem] = []
    settings: dict[Path, Node] = {}
    for word in words:
        try:
            for path, node in _leaves(*_parse(word)):
                _set(settings, path, node, found)
        except RecipeError as error:
            found.extend(error.problems)
    layer = _tree(_types(settings, found))
    if problems is None and found:
        raise RecipeError(found)
    if problems is not None:
        problems.extend(found)
    return layer


def dotted(path: Iterable[str]) -> str:
    """A path as an override writes it: `sweep.space."optimizer.lr"`."""
    return ".".join(
        part if _BARE.match(part) else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"' for part in path
    )


def _parse(word: str) -> tuple[Path, Node]:
    at = Place(f"override `{shown(word, 60)}`")
    match = _KEY.match(word)
    if refused := refused_character(word):
        raise RecipeError([Problem("encoding", at, "", refused[1])])
    if "=" not in word:
        raise RecipeError(
            [Problem("override", at, "", "an override is written KEY=VALUE", "for example optimizer.lr=0.3")]
        )
    if match is None or not word.startswith("=", match.end()):
        hint = 'words and numbers joined by dots; quote others, as in expect."min(val/loss)"'
        raise RecipeError([Problem("override", at, "", "the text before `=` is no path", hint)])
    parts = re.findall(_SEGMENT, match[0])
    path = tuple(re.sub(r"\\(.)", r"\1", part[1:-1]) if part[0] == '"' else part for part in parts)
    if len(path) > MAX_DEPTH:
        raise RecipeError([Problem("depth", at, "", f"nested deeper than {MAX_DEPTH} levels")])
    if path[0] in _BEFORE_OVERRIDES:
        raise RecipeError(
            [Problem("override", at, path[0], f"an override can't change `{path[0]}`", "set the value itself")]
        )
    return path, from_layer(read_value(word[match.end() + 1 :], at), "override")


def _leaves(path: Path, node: Node) -> Iterator[tuple[Path, Node]]:
    if not isinstance(node.value, dict) or not node.value:
        yield path, node
        return
    for key, child in node.value.items():
        yield from _leaves((*path, key), child)


def _set(settings: dict[Path, Node], path: Path, node: Node, problems: list[Problem]) -> None:
    first = settings.setdefault(path, node)
    if first is not node:
        problems.append(Problem("override", node.at, dotted(path), "is set twice", f"also by {first.at}"))


def _types(settings: dict[Path, Node], problems: list[Problem]) -> dict[Path, Node]:
    """A text set where another word sets an argument below it is that component's type."""
    result: dict[Path, Node] = {}
    parts = {path[:end]: node.at for path, node in settings.items() for end in range(1, len(path))}
    for path, node in settings.items():
        as_type = (*path, "type")
        if path not in parts:
            _set(result, path, node, problems)
        elif isinstance(node.value, str) and as_type not in parts:
            _set(result, as_type, node, problems)
        else:
            hint = f"in part by {parts[path]}"
            problems.append(Problem("override", node.at, dotted(path), "is set as a whole and in part", hint))
    return result


def _tree(settings: dict[Path, Node]) -> Node:
    root = Node({}, Place("override"), patch=True, origin="override")
    for path in sorted(settings):
        place = root
        for part in path[:-1]:
            place = place.value.setdefault(part, Node({}, settings[path].at, patch=True, origin="override"))
        place.value[path[-1]] = settings[path]
    return root
