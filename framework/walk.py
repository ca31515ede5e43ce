"""The checker's one pass over a recipe: finds every mistake, and at the same time normalises and fills in defaults.

It understands exactly the JSON Schema keywords that `framework/schema.py` writes. A validator's library would cost
more than the whole check, stop at the first mistake or answer with a wall of unions, and fill in nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from raycipe.framework import words
from raycipe.framework.errors import Problem, shown
from raycipe.framework.shapes import changed, fits, has_shape, is_reference, join, made, same
from raycipe.framework.tree import Node

Json = dict[str, Any]
MAX_HINTS = 200  # unknown keys that get one: a nearest name costs time, and nobody reads more


class Map:
    """A map that the walk visited: what it is (`optimizers/sgd`, `train`), and every argument that it may have."""

    __slots__ = ("arguments", "label", "node", "type_kind")

    def __init__(self, label: str, arguments: Json, node: Node, type_kind: str = "") -> None:
        self.label = label
        self.arguments = arguments
        self.node = node
        self.type_kind = type_kind  # the kind, where the map is a component


class Walk:
    """One pass. `problems` holds the mistakes, `maps` what stands at each path, `unsure` the paths not understood."""

    def __init__(self, schema: Json, files: Any = None, layers: Mapping[str, int] | None = None) -> None:
        self.layers = layers or {}  # file or origin -> its height: which of two excluding arguments is the upper one
        self.defs: Json = schema["$defs"]
        self.types: dict[str, list[str]] = {kind: [] for kind in schema["x-kinds"]}
        for key in self.defs:
            kind, slash, type_ = key.partition("/")
            if slash and "x-error" not in self.defs[key]:
                self.types[kind].append(type_)
        self.strays: list[tuple[str, str]] = schema.get("x-strays", [])
        self.files = files
        self.problems: list[Problem] = []
        self.maps: dict[str, Map] = {}
        self.unsure: set[str] = set()
        self._unknown: list[tuple[Problem, str, Json]] = []

    # -------------------------------------------------------------------------------------- values

    def value(self, wanted: Json, node: Node, path: str, owner: tuple[str, Json]) -> Node:
        """The normalised node. `owner` is the argument that a hint explains: its name and schema."""
        if is_reference(node):
            self.unsure.add(path)
            return node
        if node.patch and _wants_list(wanted, node):  # overrides by index of a list that no layer has: they make it
            if set(node.value) != {str(index) for index in range(len(node.value))}:
                return self._no_entries(node, path)
            node = changed(node, [node.value[key] for key in sorted(node.value, key=int)])
        if "anyOf" in wanted:
            branch = self._branch(wanted, node)
            if branch is None:
                self._wrong(
                    "wrong-type", node, path, f"must be {words.wants(wanted)}, not {words.told(node.value)}", owner
                )
                return node
            return self.value(branch, node, path, owner)
        if "$ref" in wanted:
            name = wanted["$ref"].rpartition("/")[2]
            if name in self.types:
                return self.component(name, node, path, owner)
            return self.value(self.defs[name], node, path, owner)
        if "enum" in wanted:
            return self._choice(wanted["enum"], node, path, owner)
        return self._typed(wanted, node, path, owner)

    def _no_entries(self, node: Node, path: str) -> Node:
        """Overrides of entries that do not follow on the ones that are there: there are none."""
        first = next(key for index, key in enumerate(sorted(node.value)) if key != str(index))
        message = f"{path} is not written here: its entries are named by their numbers, and 0 makes the first"
        hint = f"write {path}.0=... first, or all of it: {path}=[...]"
        self._add(Problem("override", node.value[first].at, join(path, first), message, hint), node.value[first])
        return node

    def _branch(self, wanted: Json, node: Node) -> Json | None:
        """The alternative with the value's shape; a mistake is then told about that one alone."""
        found = None
        options = words.branches(wanted)
        for branch in options:
            if fits(branch, node.value):
                found = branch
                break
        is_component = found is not None and "$ref" in found and found["$ref"].rpartition("/")[2] in self.types
        if is_component and isinstance(node.value, str) and found is not None:
            others = [branch for branch in options if branch is not found and words.type_of(branch) != "null"]
            types = self.types[found["$ref"].rpartition("/")[2]]
            if others and node.value not in types and words.nearest(node.value, types) is None:
                return None
        return found

    def _choice(self, choices: list[Any], node: Node, path: str, owner: tuple[str, Json]) -> Node:
        for choice in choices:
            if same(choice, node.value):
                return changed(node, choice)
        self._wrong(
            "wrong-choice", node, path, f"must be {words.wants({'enum': choices})}, not {words.told(node.value)}", owner
        )
        near = (
            words.nearest(node.value, [c for c in choices if isinstance(c, str)])
            if isinstance(node.value, str)
            else None
        )
        if near:
            meant = " or ".join(f"`{name}`" for name in words.family(node.value, near, choices))
            self.problems[-1].hint = "\n".join(filter(None, [f"did you mean {meant}?", self.problems[-1].hint]))
        self.problems[-1].allowed = choices
        return node

    def _typed(self, wanted: Json, node: Node, path: str, owner: tuple[str, Json]) -> Node:
        shape = words.type_of(wanted)
        value = node.value
        if shape == "integer" and isinstance(value, float) and value.is_integer():
            node = changed(node, int(value))
            value = node.value
        if shape and not has_shape(shape, value):
            self._wrong("wrong-type", node, path, f"must be {words.wants(wanted)}, not {words.told(node.value)}", owner)
            return node
        if shape in ("integer", "number"):
            self._bounds(wanted, node, path, owner)
        elif shape == "string":
            return self._text(wanted, node, path, owner)
        elif shape == "array":
            return self._list(wanted, node, path, owner)
        elif shape == "object":
            return self.record(wanted, node, path, owner)
        return node

    def _bounds(self, wanted: Json, node: Node, path: str, owner: tuple[str, Json]) -> None:
        value = node.value
        if (
            value < wanted.get("minimum", value)
            or value > wanted.get("maximum", value)
            or ("exclusiveMinimum" in wanted and value <= wanted["exclusiveMinimum"])
            or ("exclusiveMaximum" in wanted and value >= wanted["exclusiveMaximum"])
        ):
            name = "an integer" if words.type_of(wanted) == "integer" else "a number"
            message = f"must be {name} {words.bounds(wanted)}, not {words.bare(value)}"
            self._wrong("out-of-range", node, path, message, owner)

    def _text(self, wanted: Json, node: Node, path: str, owner: tuple[str, Json]) -> Node:
        pattern = wanted.get("pattern")
        if pattern and not re.match(pattern[:-1] + r"\Z", node.value):
            message = f"{wanted['patternErrorMessage']}, not `{shown(node.value)}`"
            self._wrong("wrong-choice", node, path, message, owner)
        elif "x-file" in wanted and self.files is not None:
            absolute, mistake = self.files.find(node, wanted["x-file"])
            if mistake:
                self._wrong("file", node, path, mistake, owner)
            else:
                return changed(node, absolute)
        return node

    def _list(self, wanted: Json, node: Node, path: str, owner: tuple[str, Json]) -> Node:
        low, high = wanted.get("minItems", 0), wanted.get("maxItems")
        count = len(node.value)
        if count < low or (high is not None and count > high):
            span = f"{low}" if low == high else f"{low} or more" if high is None else f"{low} to {high}"
            entries = "entry" if span == "1" else "entries"
            self._wrong("length", node, path, f"must have {span} {entries}, not {count}", owner)
        first = wanted.get("prefixItems", [])
        entries_ = []
        for index, entry in enumerate(node.value):
            inner = first[index] if index < len(first) else wanted.get("items", {})
            entries_.append(self.value(inner, entry, f"{path}.{index}", owner))
        return changed(node, entries_)

    # -------------------------------------------------------------------------------------- maps

    def record(self, wanted: Json, node: Node, path: str, owner: tuple[str, Json]) -> Node:
        """A closed map with `properties`, or a free one."""
        if "properties" in wanted:
            return changed(node, self._arguments(wanted, node, path, path or "a recipe"))
        inner = wanted.get("additionalProperties", {})
        if any(found.type_kind and path.startswith(above + ".") for above, found in self.maps.items()):
            self.maps[path] = Map("", dict.fromkeys(node.value, inner), node)  # what is written in it may vary
        entries = {key: self.value(inner, child, join(path, key), owner) for key, child in node.value.items()}
        return changed(node, entries)

    def component(self, kind: str, node: Node, path: str, owner: tuple[str, Json]) -> Node:
        """A component, told by its type's name or by a map with `type`."""
        if isinstance(node.value, str):
            type_node, type_path = node, path
        elif isinstance(node.value, dict):
            if "type" not in node.value:
                self._without_type(kind, node, path)
                return node
            type_node, type_path = node.value["type"], join(path, "type")
        else:
            message = f"must be one of {kind} (its name, or a map with `type`), not {words.told(node.value)}"
            self._wrong("wrong-type", node, path, message, owner)
            return node
        definition = self._definition(kind, type_node, type_path)
        if definition is None:
            self.unsure.add(path)
            return node
        label = f"{kind}/{type_node.value}"
        full = node if isinstance(node.value, dict) else changed(node, {"type": Node(node.value, node.at)})
        full = self._chosen(definition, full)
        entries = self._arguments(definition, full, path, label, kind)
        self._exclusive(definition, full, path)
        return changed(node, {"type": full.value["type"], **entries})

    def _definition(self, kind: str, node: Node, path: str) -> Json | None:
        name = node.value
        if is_reference(node):
            return None
        if not isinstance(name, str):
            self._wrong("wrong-type", node, path, f"must be text, not {words.told(node.value)}", ("type", {}))
            return None
        found: Json | None = self.defs.get(f"{kind}/{name}") if name in self.types[kind] else None
        if found is not None:
            return found
        broken = self.defs.get(f"{kind}/{name}", {}).get("x-error")
        if broken:
            source = self.defs[f"{kind}/{name}"]
            problem = Problem(
                "plugin", node.at, path, f"{kind}/{name} can't be imported: {shown(broken, 300)}", value=name
            )
            problem.hint = f"in {source['x-file']} ({source['x-origin']})"
        elif not re.match(r"[A-Za-z0-9_-]+\Z", name):
            problem = Problem("unknown-type", node.at, path, f"no {kind}/{shown(name)}", value=name)
            problem.hint = "a type is one registered word, never an import path"
        else:
            others = [other for other in self.types if name in self.types[other]]
            elsewhere = f": `{shown(name)}` is one of {' and '.join(others)}" if others else ""
            problem = Problem("unknown-type", node.at, path, f"no {kind}/{shown(name)}{elsewhere}", value=name)
            problem.hint = self._known(kind, "" if others else name)
        problem.allowed = self.types[kind]
        self._add(problem, node)
        return None

    def _known(self, kind: str, name: str) -> str:
        stray = words.stray(name, self.strays) if name else ""
        if stray:
            return stray
        near = words.nearest(name, self.types[kind]) if name else None
        if near:
            return f"did you mean `{near}`?"
        types = sorted(self.types[kind])
        known = f"known: {words.listed(types)}" if types else f"no {kind} are installed"
        return f"{known}\n{words.OWN_COMPONENTS}" if name else known

    def _without_type(self, kind: str, node: Node, path: str) -> None:
        """A map that does not say its type: told once, and each key that no type of the kind knows."""
        self.unsure.add(path)
        problem = Problem("missing", node.key_at, path, f"missing `type`, which says which of {kind} it is")
        problem.hint = self._known(kind, "")
        self._add(problem, node)
        every: Json = {}
        for type_ in self.types[kind]:
            every.update(self.defs[f"{kind}/{type_}"]["properties"])
        for key, child in node.value.items():
            if key not in every and every:
                self._unknown_key(key, child, path, f"no {kind} have the argument `{shown(key)}`", every)

    def _arguments(self, wanted: Json, node: Node, path: str, label: str, kind: str = "") -> dict[str, Node]:
        """The entries of a closed map: known ones checked, unknown ones and missing ones told, defaults filled in."""
        properties = {name: found for name, found in wanted["properties"].items() if "const" not in found}
        self.maps[path] = Map(label, properties, node, kind)
        entries = {}
        for key, child in node.value.items():
            if key in properties:
                inner = properties[key]
                entries[key] = self.value(inner, child, join(path, key), (key, inner))
            elif not (key == "type" and kind):
                what = f"unknown argument of {label}" if kind else f"unknown key of {label}"
                self._unknown_key(key, child, path, what if path else "unknown section", properties)
        for name in wanted.get("required", ()):
            if name not in node.value:
                message = f"missing `{name}`, which {'every recipe' if not path else label} needs"
                hint = words.help_line(name, properties[name])
                self._add(Problem("missing", node.key_at, path, message, hint), node)
        entries.update(self._defaults(wanted, properties, node, path, label))
        return entries

    def _defaults(self, wanted: Json, properties: Json, node: Node, path: str, label: str) -> dict[str, Node]:
        left_out: set[str] = set()
        for rule in wanted.get("allOf", ()):
            pair = rule["not"]["required"]
            given = [name for name in pair if name in node.value]
            left_out.update(pair if given else [name for name in pair if properties[name].get("default") is None])
        filled = {}
        for name, inner in properties.items():
            if name in node.value or "default" not in inner or "x-from-data" in inner or name in left_out:
                continue
            default = made(inner["default"], node.at, f"default of {label}")
            filled[name] = self.value(inner, default, join(path, name), (name, inner))
        return filled

    def _chosen(self, wanted: Json, node: Node) -> Node:
        """The map without the arguments of lower layers that an upper layer's argument excludes."""
        kept = dict(node.value)
        for rule in wanted.get("allOf", ()):
            pair = rule["not"]["required"]
            if all(name in kept for name in pair):
                # A null never wins: it takes an argument away.
                ranks = [(kept[name].value is not None, *self._height(kept[name])) for name in pair]
                if ranks[0] != ranks[1]:
                    del kept[pair[ranks.index(min(ranks))]]
        return node if len(kept) == len(node.value) else changed(node, kept)

    def _height(self, node: Node) -> tuple[int, int]:
        """How high the uppermost layer lies that wrote a part of the value: of origins, then of a profile's files."""
        value = node.value
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        own = self.layers.get(node.origin, 0), self.layers.get(node.at.source, 0)
        return max([own, *map(self._height, parts)])

    def _exclusive(self, wanted: Json, node: Node, path: str) -> None:
        for rule in wanted.get("allOf", ()):
            first, second = rule["not"]["required"]
            if first in node.value and second in node.value:
                at = node.value[second].key_at
                message = f"excludes `{first}`: at most one of them can be given"
                self._add(Problem("wrong-choice", at, join(path, second), message), node.value[second])

    # -------------------------------------------------------------------------------------- mistakes

    def _wrong(self, code: str, node: Node, path: str, message: str, owner: tuple[str, Json]) -> None:
        self._add(
            Problem(
                code,
                node.at,
                path,
                message,
                words.help_line(*owner),
                value=None if isinstance(node.value, (dict, list)) else node.value,
            ),
            node,
        )

    def _add(self, problem: Problem, node: Node) -> None:
        if node.via:
            problem.message += f" ({node.via})"
        self.problems.append(problem)

    def _unknown_key(self, key: str, node: Node, path: str, what: str, known: Json) -> None:
        problem = Problem("unknown-key", node.key_at, join(path, shown(key)), what, value=key, allowed=sorted(known))
        self.unsure.add(join(path, key))
        self._add(problem, node)
        self._unknown.append((problem, key, known))

    def finish(self) -> None:
        """Fill in the hints of unknown keys, which may point to any path that the whole walk has seen."""
        for problem, key, known in self._unknown[:MAX_HINTS]:
            elsewhere = [join(path, key) for path, found in self.maps.items() if key in found.arguments]
            simple = key.lower().replace("-", "_")
            near = simple if simple in known else None if elsewhere else words.nearest(key, known)
            if not near and problem.path == key and words.SECTIONS_MEANT.get(simple) in known:
                near = words.SECTIONS_MEANT[simple]
            if near:
                problem.hint = words.suggestion(near, known[near])
            elif elsewhere:
                problem.hint = f"did you mean `{elsewhere[0]}`?"
            elif known:
                problem.hint = f"known: {words.listed(sorted(known))}"
            else:
                problem.hint = "it takes no arguments"


def _wants_list(wanted: Json, node: Node) -> bool:
    """Whether a map of overrides stands where a list may stand, and no map."""
    shapes = {words.type_of(branch) for branch in words.branches(wanted)}
    return bool(node.value) and isinstance(node.value, dict) and "array" in shapes and "object" not in shapes
