"""Shapes of values, and new Nodes made from old ones, for the walk over a recipe."""

from __future__ import annotations

from typing import Any

from raycipe.framework import words
from raycipe.framework.tree import Node, Place


def join(path: str, key: str) -> str:
    """The dotted path of a key."""
    return f"{path}.{key}" if path else key


def changed(node: Node, value: Any) -> Node:
    """A new Node with another value: layers share nodes, so none is ever changed."""
    return Node(value, node.at, node.key_at, node.plain, False, node.origin, node.over, node.via)


def made(value: Any, at: Place, origin: str) -> Node:
    """A default as a tree of Nodes that say where it comes from."""
    if isinstance(value, dict):
        value = {key: made(child, at, origin) for key, child in value.items()}
    elif isinstance(value, list):
        value = [made(child, at, origin) for child in value]
    return Node(value, at, origin=origin)


def same(choice: Any, value: Any) -> bool:
    """Equal in value and type: `true` is not 1, but 1.0 is."""
    if isinstance(choice, bool) or isinstance(value, bool):
        return choice is value
    return bool(choice == value)


def fits(branch: dict[str, Any], value: Any) -> bool:
    """Whether a value has the YAML shape that an alternative of a union wants."""
    if "enum" in branch:
        return any(shape_of(choice) == shape_of(value) for choice in branch["enum"])
    if "$ref" in branch:
        return isinstance(value, (str, dict))
    return shape_of(value) == {"integer": "number"}.get(words.type_of(branch), words.type_of(branch))


def has_shape(shape: str, value: Any) -> bool:
    """Whether a value has a JSON Schema type; a boolean is no integer."""
    if shape == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return shape_of(value) == shape


def shape_of(value: Any) -> str:
    """The JSON Schema type of a value; all numbers are `number`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def is_reference(node: Node) -> bool:
    """A text that still holds `${` after references were filled in: a wrong one, which has been told."""
    return isinstance(node.value, str) and "${" in node.value
