"""The same recipe with some values changed: what a trial of a sweep and a run of a study are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from raycipe.framework.check import check
from raycipe.framework.errors import Problem, RecipeError
from raycipe.framework.layers import INDEX, as_component, taken_away, without
from raycipe.framework.recipe import CHANGE, Recipe
from raycipe.framework.shapes import changed, made
from raycipe.framework.tree import Node, Place

SET_ASIDE = ("sweep", "study", "expect", "track")  # sections about the whole: its parts have none of them


def vary(
    recipe: Recipe,
    changes: Mapping[str, Any],
    *,
    aside: Sequence[str] = SET_ASIDE,
    schema: dict[str, Any] | None = None,
    data_root: str | None = None,
) -> Recipe:
    """The checked recipe with `changes` (dotted path -> plain value) laid over it, without the sections `aside`.

    A map replaces what stood there; another `type` drops the old type's arguments; None removes a section; references
    follow. Its `text` is a recipe of its own that can be launched. Raises RecipeError for values that it can't hold.
    """

    def change(root: Node) -> Node:
        root = without(root, *aside)
        for path, value in sorted(changes.items(), key=lambda item: not item[0].endswith(".type")):
            if value is None and "." not in path:
                root = without(root, path)
            else:
                root = _set(root, path.split("."), made(value, Place(f"change of {path}"), CHANGE), "")
        return root

    merged = recipe.merged.changed(change)
    found = check(merged, schema, data_root)
    found.is_smoke = recipe.is_smoke
    found.text = found.as_written().encode()
    return found


def _set(node: Node, words: Sequence[str], value: Node, path: str) -> Node:
    """The tree with a value at a path; what lies on the way is copied, and made where it is missing."""
    first, rest = words[0], words[1:]
    if isinstance(node.value, list):
        return _set_entry(node, first, rest, value, path)
    if isinstance(node.value, str):
        node = as_component(node)
    old: dict[str, Node] = node.value if isinstance(node.value, dict) else {}
    if not rest and first == "type" and "type" in old and old["type"].value != value.value:
        return changed(node, {"type": value})
    below = f"{path}.{first}".lstrip(".")
    child = _set(old.get(first, Node({}, value.at, origin=CHANGE)), rest, value, below) if rest else value
    gone = set(taken_away(path, {first: child}))
    return changed(node, {**{key: kept for key, kept in old.items() if key not in gone}, first: child})


def _set_entry(node: Node, first: str, rest: Sequence[str], value: Node, path: str) -> Node:
    entries = list(node.value)
    if not INDEX.match(first) or int(first) >= len(entries):
        problem = Problem("override", value.at, f"{path}.{first}", f"{path} is a list of {len(entries)}")
        raise RecipeError([problem])
    entries[int(first)] = _set(entries[int(first)], rest, value, f"{path}.{first}") if rest else value
    return changed(node, entries)
