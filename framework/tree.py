"""The tree that a recipe's text becomes: every value remembers where it was written."""

from __future__ import annotations

from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where something was written. `line` and `column` count from 1; 0 means the source as a whole."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


class Node:
    """One value of a recipe.

    `value` is a dict of Nodes, a list of Nodes or a scalar (str, int, float, bool, None).
    `at` is the place of the value, `key_at` the place of its key (of the value where it has none),
    `plain` tells whether a scalar was written without quotes, `patch` marks a map built from
    command-line overrides (its digits may index a list), `origin` says which layer wrote it ("" for a file,
    "profile NAME", "override"), `over` is the node of a lower layer that this one replaced, `via` tells
    which reference gave the value ("from `${train.x}`, base.yaml:7:3"; "" if none did).

    A Node that a layer holds is never changed: layers share nodes.
    """

    __slots__ = ("at", "key_at", "origin", "over", "patch", "plain", "value", "via")

    def __init__(
        self,
        value: Any,
        at: Place,
        key_at: Place | None = None,
        plain: bool = True,
        patch: bool = False,
        origin: str = "",
        over: Node | None = None,
        via: str = "",
    ) -> None:
        self.value = value
        self.at = at
        self.key_at = key_at if key_at is not None else at
        self.plain = plain
        self.patch = patch
        self.origin = origin
        self.over = over
        self.via = via

    def __repr__(self) -> str:
        return f"Node({self.value!r}, {self.at})"


def plain(node: Node) -> Any:
    """The values of a tree without their places, as dicts, lists and scalars."""
    value = node.value
    if isinstance(value, dict):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [plain(child) for child in value]
    return value
