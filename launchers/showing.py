"""How `raycipe show` prints a component or a section, from the schema alone."""

from __future__ import annotations

from typing import Any

from raycipe.framework.words import allowed_range, bare, branches, type_of, wants

WIDTH = 100
Json = dict[str, Any]


def component(name: str, found: Json) -> str:
    """`kind/type`: what it is, its formula, arguments, reports, reference and an example recipe."""
    parts = [f"{name}\n{_filled(found['description'], '  ')}"]
    if "x-about" in found:
        parts.append(_indented(found["x-about"]))
    properties = {key: wanted for key, wanted in found["properties"].items() if "const" not in wanted}
    parts.append(_arguments(properties, found.get("required", [])) or "arguments: none")
    for rule in found.get("allOf", []):
        parts.append("at most one of: " + ", ".join(rule["not"]["required"]))
    if "x-reports" in found:
        parts.append("reports: " + ", ".join(_reported(name, found["x-reports"])))
    if "x-reference" in found:
        parts.append("reference:\n" + _filled(found["x-reference"], "  "))
    if "x-recipe" in found:
        parts.append("recipe:\n" + _indented(found["x-recipe"]))
    return "\n\n".join(parts)


def section(name: str, found: Json) -> str:
    """A section that is no component: its keys."""
    return f"{name}\n\n{_arguments(found['properties'], found.get('required', []), 'keys')}"


def _reported(name: str, words: list[str]) -> list[str]:
    kind, _, type_ = name.partition("/")
    return [f"measure/{type_}/{word}" for word in words] if kind == "measures" else words


def _arguments(properties: Json, required: list[str], title: str = "arguments") -> str:
    if not properties:
        return ""
    lines = [f"{title}:"]
    width = max(map(len, properties))
    for name in sorted(properties, key=lambda name: (name not in required, name)):
        wanted = properties[name]
        lines.append(f"  {name:<{width}}  {_facts(name, wanted, name in required)}")
        if wanted.get("description"):
            lines.append(_filled(wanted["description"], " " * (width + 4)))
        for key, inner in _keys(wanted).items():
            lines.append(f"{' ' * (width + 4)}{key}: {_facts(key, inner, False)}")
    return "\n".join(lines)


def _facts(name: str, wanted: Json, required: bool) -> str:
    ranges = [allowed_range(name, branch) for branch in branches(wanted)]
    shape = " or ".join(_shape(branch) for branch in branches(wanted)) if wanted else "any value"
    if "x-from-data" in wanted:
        default = f"default: the data's {wanted['x-from-data']}"
    elif "default" in wanted:
        default = f"default {bare(wanted['default'])}"
    else:
        default = "required" if required else ""
    return ", ".join(filter(None, [shape, *ranges, default]))


def _shape(branch: Json) -> str:
    """The type in words, without the bounds, which follow as a range."""
    limits = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    if type_of(branch) == "array" and "items" in branch:
        inner = branch["items"]
        limited = " or ".join(f"{wants(part)}" for part in branches(inner))
        return f"a list, each {limited}"
    return wants({key: value for key, value in branch.items() if key not in limits})


def _keys(wanted: Json) -> Json:
    for branch in branches(wanted):
        if "properties" in branch:
            return dict(branch["properties"])
    return {}


def _filled(text: str, indent: str) -> str:
    from textwrap import fill

    return fill(" ".join(text.split()), WIDTH, initial_indent=indent, subsequent_indent=indent)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
