"""How `raycipe list` and `raycipe show` print components, kinds and keys, from the schema alone."""

from __future__ import annotations

import sys
from typing import Any

from raycipe.framework.words import allowed_range, bare, branches, listed, type_of, wants

WIDTH = 100
NARROWEST = 20  # columns left beside the names, below which a text goes under its name
FEW = 12
MANY = 1000  # from here on a bound of the length is a safeguard, no property of the argument
Json = dict[str, Any]


def component(name: str, found: Json) -> str:
    """`kind/type`: what it is, its formula, arguments, reports, reference and an example recipe."""
    parts = [f"{name}\n{filled(found['description'], '  ')}"]
    if "x-about" in found:
        parts.append(_indented(found["x-about"]))
    properties = {key: wanted for key, wanted in found["properties"].items() if "const" not in wanted}
    parts.append(arguments(properties, found.get("required", [])) or "arguments: none")
    for rule in found.get("allOf", []):
        parts.append("at most one of: " + ", ".join(rule["not"]["required"]))
    if "x-reports" in found:
        parts.append("reports: " + ", ".join(_reported(name, found["x-reports"])))
    if "x-reference" in found:
        parts.append("reference:\n" + filled(found["x-reference"], "  "))
    if "x-recipe" in found:
        parts.append("recipe:\n" + _indented(found["x-recipe"]))
    return "\n\n".join(parts)


def components(defs: Json, kind: str | None = None) -> str:
    """The components (of one kind, if given), a line each; one that can't be imported with its error."""
    names = sorted(key for key in defs if "/" in key and kind in (None, key.partition("/")[0]))
    width = max(map(len, names), default=0)
    lines = []
    for name in names:
        about = defs[name].get("description") or f"can't be imported: {defs[name].get('x-error', '')}"
        lines.append(entry(name, " ".join(about.split()), width))
    return "\n".join(lines) or f"no {kind or 'components'} are installed"


def entry(name: str, about: str, width: int) -> str:
    """One line of a list. A terminal gets it broken between words, a pipe in one piece."""
    line = f"{name:<{width}}  {about}".rstrip()
    room = columns()
    if room is None or len(line) <= room:
        return line
    from textwrap import fill

    if room - width - 2 >= NARROWEST:
        return fill(about, room, initial_indent=line[: width + 2], subsequent_indent=" " * (width + 2), **WHOLE_WORDS)
    return f"{name}\n" + fill(about, room, initial_indent="    ", subsequent_indent="    ", **WHOLE_WORDS)


WHOLE_WORDS: Any = {"break_long_words": False, "break_on_hyphens": False}


def columns() -> int | None:
    """The terminal's width, or None where the output goes elsewhere."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return max(get_terminal_size().columns, 2 * NARROWEST)


def _reported(name: str, words: list[str]) -> list[str]:
    kind, _, type_ = name.partition("/")
    return [f"measure/{type_}/{word}" for word in words] if kind == "measures" else words


def arguments(properties: Json, required: list[str], title: str = "arguments") -> str:
    """A title and each argument with its facts, meaning and inner keys; empty without arguments."""
    if not properties:
        return ""
    lines = [f"{title}:"]
    width = max(map(len, properties))
    indent = " " * (width + 4)
    for name in sorted(properties, key=lambda name: (name not in required, name)):
        wanted = properties[name]
        lines.append(entry(f"  {name}", facts(name, wanted, name in required), width + 2))
        if wanted.get("description"):
            lines.append(filled(wanted["description"], indent))
        for key, inner in keys(wanted).items():
            lines.append(entry(f"{indent}{key}:", facts(key, inner, False), 0).replace(":  ", ": ", 1))
    return "\n".join(lines)


def facts(name: str, wanted: Json, required: bool) -> str:
    """Type, range and default of an argument: `a number, 0 <= momentum < 1, default 0`."""
    shapes = dict.fromkeys(_shape(name, branch) for branch in branches(wanted)) if wanted else ["any value"]
    ranges = [found for found in (allowed_range(name, branch) for branch in branches(wanted)) if not _is_half(found)]
    if "x-from-data" in wanted:
        default = f"default: the data's {wanted['x-from-data']}"
    elif "default" in wanted:
        default = f"default {bare(wanted['default'])}"
    else:
        default = "required" if required else ""
    return ", ".join(filter(None, [" or ".join(shapes), *ranges, default]))


def _is_half(found: str) -> bool:
    """Whether a range is bounded on one side alone, or not at all."""
    return found.count("<") + found.count(">") < 2


def _shape(name: str, branch: Json) -> str:
    """The type in words; a bound on one side follows at once, a range later with the argument's name."""
    if "enum" in branch:
        return _names(branch)
    if type_of(branch) == "array":
        return _list_shape(branch)
    limits = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    words = wants({key: value for key, value in branch.items() if key not in limits})
    found = allowed_range(name, branch)
    return words + found.removeprefix(name) if found and _is_half(found) else words


def _names(branch: Json) -> str:
    """A type in words, with all names that there are: a message shows some, here the others are looked up."""
    if len(branch.get("enum", ())) > FEW:
        return "one of " + ", ".join(bare(value) for value in branch["enum"])
    return wants(branch)


def _list_shape(branch: Json) -> str:
    """A list with its length, where that is bounded on purpose, and what its entries are."""
    places = branch.get("prefixItems", [])
    least, most = branch.get("minItems", 0), branch.get("maxItems", MANY)
    length = f" of {least}" if least == most else f" of {least} to {most}" if least > 0 and most < MANY else ""
    entries = [
        " or ".join(_names(part) for part in branches(place)) for place in [*places, branch.get("items")] if place
    ]
    if not entries:
        return f"a list{length}"
    if len(set(entries)) == 1:
        return f"a list{length}, each {entries[0]}"
    return f"a list{length}: {'; '.join(entries)}"


def keys(wanted: Json) -> Json:
    """The keys of a map that an argument may be, with their schemas."""
    for branch in branches(wanted):
        if "properties" in branch:
            return dict(branch["properties"])
    return {}


def unknown(kind: str, type_: str, schema: Json) -> str:
    """What to do about a `kind/type` that is not there."""
    from raycipe.framework.catalogue import types
    from raycipe.framework.words import OWN_COMPONENTS, nearest, stray

    if kind not in schema["x-kinds"]:
        near = nearest(kind, schema["x-kinds"])
        return f"did you mean `{near}/{type_}`?" if near else f"kinds: {', '.join(schema['x-kinds'])}"
    meant = stray(type_, schema.get("x-strays", []))
    if meant:
        return meant
    known = types(kind, schema["$defs"])
    near = nearest(type_, known)
    if near:
        return f"did you mean `{kind}/{near}`?"
    return (f"known: {listed(known)}" if known else f"no {kind} are installed") + f"\n    {OWN_COMPONENTS}"


def filled(text: str, indent: str) -> str:
    """A paragraph, indented."""
    from textwrap import fill

    width = min(WIDTH, columns() or WIDTH)
    return fill(" ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent, **WHOLE_WORDS)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
