"""Lays one tree over another: maps merge, lists are replaced, another `type` drops the old type's arguments.

Laying is a left fold (a text over a map is not what a map over a text is): bases, recipe, profiles, overrides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from raycipe.framework.errors import Problem, RecipeError
from raycipe.framework.shapes import changed, is_reference, join
from raycipe.framework.tree import Node

INDEX = re.compile(r"(0|[1-9][0-9]{0,8})\Z")
FREE_MAPS = (("expect",), ("sweep", "space"), ("sweep", "objectives"), ("resources", "custom"))
ONE_OF = {  # section -> groups of keys that say the same thing in two ways: a layer's choice takes the other one away
    "train": ((("epochs",), ("steps",)), (("env_steps",), ("iterations",))),
    "sweep": ((("metric", "mode"), ("objectives",)),),
}


def lay(low: Node, high: Node, problems: list[Problem] | None = None) -> Node:
    """A new tree: `high` over `low`; neither is changed.

    Only indices of overrides can be wrong; such problems are added to `problems`, or raised as a RecipeError.
    """
    found: list[Problem] = []
    result = _lay(low, high, "", found)
    if problems is None and found:
        raise RecipeError(found)
    if problems is not None:
        problems.extend(found)
    return result


def _lay(low: Node, high: Node, path: str, problems: list[Problem]) -> Node:
    if isinstance(high.value, dict):
        if isinstance(low.value, list) and high.patch:
            return _lay_entries(low, high, path, problems)
        if isinstance(low.value, str):
            low = as_component(low)
        if isinstance(low.value, dict):
            return _lay_maps(low, high, path, problems)
    elif isinstance(low.value, dict) and "type" in low.value and _names_type(high):
        return _lay_maps(low, as_component(high), path, problems)
    return _replace(low, high)


def _lay_maps(low: Node, high: Node, path: str, problems: list[Problem]) -> Node:
    old, new = low.value.get("type"), high.value.get("type")
    if old is not None and new is not None and old.value != new.value:
        return _replace(low, changed(high, {**high.value, "type": _replace(old, new)}))
    merged = dict(low.value)
    for key, child in high.value.items():
        if key not in merged:
            merged[key] = child
        elif _is_space(path):  # one distribution can't be mixed with another: it takes its place
            merged[key] = _replace(merged[key], child)
        else:
            merged[key] = _lay(merged[key], child, join(path, key), problems)
    for key in taken_away(_section(path), high.value):
        merged.pop(key, None)
    return changed(high if old is None and new is not None else low, merged)


def _is_space(path: str) -> bool:
    return path == "sweep.space" or (path.startswith("profiles.") and path.endswith(".sweep.space"))


def _section(path: str) -> str:
    """The section that a path names, in the recipe itself or in one of its profiles."""
    parts = path.split(".")
    return parts[2] if len(parts) == 3 and parts[0] == "profiles" else path


def taken_away(section: str, high: dict[str, Node]) -> Iterator[str]:
    """The keys of lower layers that a layer's own keys exclude. What it sets itself stays: that is its mistake."""
    for pair in ONE_OF.get(section, ()):
        for chosen, other in (pair, pair[::-1]):
            if any(key in high and high[key].value is not None for key in chosen):
                yield from (key for key in other if key not in high)


def _lay_entries(low: Node, high: Node, path: str, problems: list[Problem]) -> Node:
    """A patch over a list: its keys are indices, the first free one appends."""
    entries = list(low.value)
    for key in sorted(high.value, key=lambda key: (len(key), key)):
        child = high.value[key]
        length = len(entries)
        if INDEX.match(key) and int(key) < length:
            entries[int(key)] = _lay(entries[int(key)], child, join(path, key), problems)
        elif key == str(length):
            entries.append(child)
        else:
            message = f"{path} is a list of {length}: an entry is named by its number, and {length} appends one"
            hint = f"write {join(path, str(length))}=... to append"
            problems.append(Problem("override", child.key_at, join(path, key), message, hint))
    return changed(low, entries)


def as_component(node: Node) -> Node:
    """The text `adamw` as the map `{type: adamw}`."""
    return changed(node, {"type": node})


def from_layer(node: Node, origin: str) -> Node:
    """The same tree, every node of it marked as written by `origin`."""
    value = node.value
    if isinstance(value, dict):
        value = {key: from_layer(child, origin) for key, child in value.items()}
    elif isinstance(value, list):
        value = [from_layer(child, origin) for child in value]
    return Node(value, node.at, node.key_at, node.plain, node.patch, origin)


def without(node: Node, *keys: str) -> Node:
    """The same map without some keys."""
    return changed(node, {key: child for key, child in node.value.items() if key not in keys})


def without_nulls(root: Node) -> Node:
    """The recipe without the sections, entries of free maps and unchosen keys that a layer took away by `null`."""
    root = changed(root, _kept(root.value))
    for path in FREE_MAPS:
        root = _without_nulls_at(root, path)
    for section in ONE_OF:
        root = _without_unchosen(root, section)
    return root


def _without_unchosen(root: Node, section: str) -> Node:
    """Without the nulls that stand beside the other choice: `epochs: null, steps: 5` is `steps: 5`."""
    node = root.value.get(section)
    if node is None or not isinstance(node.value, dict):
        return root
    given = {key for key, child in node.value.items() if child.value is not None}
    unchosen: set[str] = set()
    for pair in ONE_OF[section]:
        for chosen, other in (pair, pair[::-1]):
            if not given.isdisjoint(chosen):
                unchosen.update(set(other) - given)
    return changed(root, {**root.value, section: without(node, *unchosen)})


def _without_nulls_at(node: Node, path: tuple[str, ...]) -> Node:
    if not isinstance(node.value, dict):
        return node
    if not path:
        return changed(node, _kept(node.value))
    child = node.value.get(path[0])
    return node if child is None else changed(node, {**node.value, path[0]: _without_nulls_at(child, path[1:])})


def _kept(children: dict[str, Node]) -> dict[str, Node]:
    return {key: child for key, child in children.items() if child.value is not None}


def _names_type(node: Node) -> bool:
    # A reference may stand for a whole component, so it replaces one; the type that it names is not known yet.
    return isinstance(node.value, str) and not is_reference(node)


def _replace(low: Node, high: Node) -> Node:
    return Node(high.value, high.at, high.key_at, high.plain, high.patch, high.origin, low, high.via)
