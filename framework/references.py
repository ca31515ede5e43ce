"""Fills in references: `${train.batch_size}` stands for another value of the merged recipe, and for nothing else.

Each reference is evaluated once. What fails stays as it is (a text that holds `${`), so that nobody reports it twice.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from raycipe.framework.errors import MAX_SHOWN, Problem, RecipeError, shown
from raycipe.framework.events import MAX_DEPTH, MAX_VALUES
from raycipe.framework.layers import INDEX
from raycipe.framework.shapes import changed, is_reference, join
from raycipe.framework.tree import Node
from raycipe.framework.words import listed, nearest, told

MAX_LINKS = 32
MAX_TEXT = 10_000

_SEGMENT = r"(?:[A-Za-z_][A-Za-z0-9_@/-]*|[0-9]+)"
_REFERENCE = re.compile(rf"\$\{{\s*({_SEGMENT}(?:\.{_SEGMENT})*)\s*\}}")
_ONLY_A_PATH = "only a path to another value may stand in ${...}"


def resolve(root: Node, problems: list[Problem] | None = None) -> Node:
    """The tree with every reference filled in; nodes without references are shared with `root`.

    Mistakes are added to `problems`, or raised as a RecipeError; a tree that would grow over the limits always raises.
    """
    found: list[Problem] = []
    resolver = _Resolver(root, found)
    try:
        result = resolver.value(root, "", 0).node
    except _TooLarge as error:
        raise RecipeError([*(problems or []), *found, error.problem]) from None
    if problems is None and found:
        raise RecipeError(found)
    if problems is not None:
        problems.extend(found)
    return result


class _Result(NamedTuple):
    node: Node
    links: int = 0  # the longest chain of references behind it
    size: int = 1  # values, shared ones counted where they are used
    height: int = 0  # levels of maps and lists
    failed: bool = False


class _Wrong(Exception):
    """A reference that can't be filled in; without a message if the cause is reported elsewhere."""

    def __init__(self, message: str = "", hint: str = "") -> None:
        self.message = message
        self.hint = hint


class _Chain(_Wrong):
    def __init__(self) -> None:
        super().__init__(f"a chain of more than {MAX_LINKS} references")


class _Circle(Exception):
    def __init__(self, node: Node) -> None:
        self.node = node


class _TooLarge(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


class _Resolver:
    def __init__(self, root: Node, problems: list[Problem]) -> None:
        self._root = root
        self._problems = problems
        self._known: dict[int, _Result] = {}
        self._active: dict[int, tuple[str, bool]] = {}  # node -> its path, and whether it is a reference
        self._swept = _swept(root)

    def value(self, node: Node, path: str, level: int) -> _Result:
        """The node with its references filled in; `level` counts the maps and lists around it."""
        known = self._known.get(id(node))
        if known is not None:
            return known
        if id(node) in self._active:
            raise _Wrong(f"goes round in a circle: {self._circle(node)}")
        refers = is_reference(node)
        if not refers and not isinstance(node.value, (dict, list)):
            return _Result(node)
        self._active[id(node)] = path, refers
        try:
            result = self._filled(node, path, level) if refers else self._container(node, path, level + 1)
        finally:
            del self._active[id(node)]
        self._known[id(node)] = result
        return result

    def _container(self, node: Node, path: str, level: int) -> _Result:
        if level > MAX_DEPTH:
            raise self._too_large("depth", node, path, f"nested deeper than {MAX_DEPTH} levels")
        pairs = node.value.items() if isinstance(node.value, dict) else enumerate(node.value)
        results = {key: self.value(child, join(path, str(key)), level) for key, child in pairs}
        links = max((result.links for result in results.values()), default=0)
        size = 1 + sum(result.size for result in results.values())
        height = 1 + max((result.height for result in results.values()), default=0)
        if height > MAX_DEPTH:
            raise self._too_large("depth", node, path, f"nested deeper than {MAX_DEPTH} levels")
        if size > MAX_VALUES:
            raise self._too_large("size", node, path, f"more than {MAX_VALUES} values")
        if links:
            value: Any = {key: result.node for key, result in results.items()}
            value = value if isinstance(node.value, dict) else list(value.values())
            return _Result(changed(node, value), links, size, height)
        return _Result(node, 0, size, height)

    def _filled(self, node: Node, path: str, level: int) -> _Result:
        try:
            if sum(refers for _, refers in self._active.values()) > MAX_LINKS:
                raise _Chain
            whole = _REFERENCE.fullmatch(node.value)
            result = self._alone(node, whole[1], path, level) if whole else self._in_text(node, path, level)
            if result.links > MAX_LINKS:
                raise _Chain
            return result
        except _Wrong as wrong:
            if wrong.message:
                self._problems.append(Problem("reference", node.at, path, wrong.message, wrong.hint))
            return _Result(node, failed=True)

    def _alone(self, node: Node, name: str, path: str, level: int) -> _Result:
        """A reference that is the whole value: the target's value with its type, at the reference's own place."""
        target, links, result = self._evaluated(node, name, path, level)
        found = result.node
        via = f"from `{shown(node.value)}`, {target.at}"
        filled = Node(found.value, node.at, node.key_at, found.plain, node.patch, node.origin, node.over, via)
        return _Result(filled, links, result.size, result.height)

    def _in_text(self, node: Node, path: str, level: int) -> _Result:
        """References inside a text: texts and numbers are written into it."""
        text, links, parts, end = node.value, 0, [], 0
        while (start := text.find("${", end)) >= 0:
            match = _REFERENCE.match(text, start)
            if match is None:
                raise _Wrong(_ONLY_A_PATH)
            _, chain, result = self._evaluated(node, match[1], path, level)
            value = result.node.value
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise _Wrong(f"{told(value)} can't stand inside a text: `{match[0]}`", "only text and numbers can")
            parts += [text[end:start], str(value)]
            links, end = max(links, chain), match.end()
        filled = "".join([*parts, text[end:]])
        if len(filled) > MAX_TEXT:
            raise _Wrong(f"becomes a text of {len(filled)} characters: at most {MAX_TEXT} are allowed")
        if "${" in filled:
            raise _Wrong(_ONLY_A_PATH)
        via = f"from `{shown(text)}`"
        return _Result(Node(filled, node.at, node.key_at, node.plain, node.patch, node.origin, node.over, via), links)

    def _evaluated(self, node: Node, name: str, path: str, level: int) -> tuple[Node, int, _Result]:
        """The target as written, the length of the chain that leads through it, and its value."""
        parts = tuple(name.split("."))
        if path.startswith("sweep.") and any(_related(parts, swept) for swept in self._swept):
            raise _Wrong(f"`{name}` is swept: a value of the sweep can't refer to it")
        try:
            target, hops = self._target(parts, {id(node)})
        except _Circle as circle:
            if circle.node is node:
                raise _Wrong(f"goes round in a circle: `{name}` lies inside this value") from None
            raise _Wrong from None
        result = self.value(target, name, level)
        if result.failed:
            raise _Wrong
        return target, 1 + hops + result.links, result

    def _target(self, parts: tuple[str, ...], following: set[int]) -> tuple[Node, int]:
        """The node at a path, and the number of references on the way there. Values on the way stay unevaluated."""
        if parts[0] in ("profiles", "sweep"):
            raise _Wrong(f"a reference can't point into `{parts[0]}`")
        node, hops = self._root, 0
        for done, part in enumerate(parts):
            while is_reference(node):
                node, more = self._follow(node, following)
                hops += 1 + more
            above = ".".join(parts[:done])
            if isinstance(node.value, dict) and part in node.value:
                node = node.value[part]
            elif isinstance(node.value, list) and INDEX.match(part) and int(part) < len(node.value):
                node = node.value[int(part)]
            else:
                hint = _known_there(node, above, part) if len(self._problems) < MAX_SHOWN else ""
                raise _Wrong(f"no value `{shown('.'.join(parts), 80)}`", hint)
        return node, hops

    def _follow(self, node: Node, following: set[int]) -> tuple[Node, int]:
        whole = _REFERENCE.fullmatch(node.value)
        if id(node) in following:
            raise _Circle(node)
        if len(following) > MAX_LINKS:
            raise _Chain
        if whole is None:
            raise _Wrong("leads through a text", f"`{shown(node.value)}` has no values below it")
        try:
            return self._target(tuple(whole[1].split(".")), {*following, id(node)})
        except _Chain:
            raise
        except _Wrong:
            raise _Wrong from None  # its own evaluation reports it

    def _circle(self, target: Node) -> str:
        active = list(self._active)
        steps = active[active.index(id(target)) :]
        names = [path for path, refers in map(self._active.__getitem__, steps[1:]) if refers]
        start = self._active[id(target)][0]
        return " -> ".join([start, *names, start])

    def _too_large(self, code: str, node: Node, path: str, message: str) -> _TooLarge:
        return _TooLarge(Problem(code, node.at, path, message, "references may have made it so large"))


def _swept(root: Node) -> list[tuple[str, ...]]:
    """The paths that the recipe's sweep varies."""
    node: Node | None = root
    for key in ("sweep", "space"):
        node = node.value.get(key) if node is not None and isinstance(node.value, dict) else None
    return [tuple(key.split(".")) for key in node.value] if node is not None and isinstance(node.value, dict) else []


def _related(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _known_there(node: Node, above: str, part: str) -> str:
    prefix = f"{above}." if above else ""
    if isinstance(node.value, dict):
        near = nearest(part, node.value)
        if near is not None:
            return f"did you mean `{prefix}{near}`?"
        return (
            f"only a value that the recipe writes can be named: {listed([shown(key) for key in node.value])}"
            if node.value
            else f"`{above}` is empty"
        )
    if isinstance(node.value, list):
        return f"`{above}` is a list of {len(node.value)}"
    return f"`{above}` is {told(node.value)}"
