"""How a mistake is put into words: values, ranges, what is allowed, the nearest known name."""

from __future__ import annotations

from typing import Any

from raycipe.framework.errors import shown

NAMES_SHOWN = 12
MOST_NAMES = 500
LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
FAR = 10**9
OWN_COMPONENTS = "own components: --components DIR"
LONGEST_NAME = 100
SECTIONS_MEANT = {"rl": "agent", "loss": "task", "network": "model", "metrics": "measures"}  # no letters tell
ENDING = 4  # letters that a name has beyond what was written: the word may be the beginning of several
SHORT_NAME = 8  # up to this length a few common letters make two words look alike, as width and depth


def told(value: Any) -> str:
    """A value as a message names it: `the text `x``, `7`, `true`, `null`, `a list`, `a map`."""
    if isinstance(value, str):
        return f"the text `{shown(value)}`"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    return bare(value)


def bare(value: Any) -> str:
    """A scalar or small tree as it would stand in a recipe, on one line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, dict):
        return shown("{" + ", ".join(f"{key}: {bare(child)}" for key, child in value.items()) + "}", 60)
    if isinstance(value, list):
        return shown("[" + ", ".join(bare(child) for child in value) + "]", 60)
    return shown(value, 60)


def listed(names: list[str]) -> str:
    """Up to 12 names, then how many more there are."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def nearest(word: str, known: Any) -> str | None:
    """The known name that was probably meant: the same but for case and hyphens, letters swapped, or similar."""
    names: list[str] = list(known)
    simple = word.lower().replace("-", "_")
    if simple in names:
        return simple
    names = [name for name in names[:MOST_NAMES] if len(name) <= LONGEST_NAME]  # comparing is slow, and quadratic
    if not names or len(word) > LONGEST_NAME:
        return None
    swapped = [name for name in names if sorted(name) == sorted(simple)]
    if swapped:
        return swapped[0]
    from difflib import get_close_matches  # costs 6 ms, so only a wrong name imports it

    found = get_close_matches(simple, names, n=1, cutoff=0.65 if len(simple) <= SHORT_NAME else 0.6)
    return found[0] if found else None


def family(word: str, near: str, known: Any) -> list[str]:
    """`near` and what begins as it does, where the word is but their common beginning, well written or not."""
    if len(near) - len(word) < ENDING:
        return [near]
    return [name for name in known if isinstance(name, str) and name[: len(word)] == near[: len(word)]]


def stray(name: str, strays: list[tuple[str, str]]) -> str:
    """What is said of a file that was probably meant to be this component, or an empty text."""
    simple = name.lower().replace("-", "_")
    return next((sentence for stem, sentence in strays if stem == simple), "")


def bounds(wanted: dict[str, Any]) -> str:
    """`>= 1 and <= 10`; empty without bounds."""
    signs = {">": "exclusiveMinimum", ">=": "minimum", "<": "exclusiveMaximum", "<=": "maximum"}
    return " and ".join(f"{sign} {number(wanted[key])}" for sign, key in signs.items() if key in wanted)


def allowed_range(name: str, wanted: dict[str, Any]) -> str:
    """`0 < ratio <= 1`, `epochs >= 1`; empty without bounds. Bounds that nobody meets (10**9 and more) are no news."""
    wanted = {key: bound for key, bound in wanted.items() if key not in LIMITS or abs(bound) < FAR}
    low = {"exclusiveMinimum": " < ", "minimum": " <= "}
    high = {"exclusiveMaximum": " < ", "maximum": " <= "}
    before = "".join(number(wanted[key]) + sign for key, sign in low.items() if key in wanted)
    after = "".join(sign + number(wanted[key]) for key, sign in high.items() if key in wanted)
    if before and not after:
        sign = ">" if "exclusiveMinimum" in wanted else ">="
        return f"{name} {sign} {number(wanted.get('exclusiveMinimum', wanted.get('minimum')))}"
    return f"{before}{name}{after}" if before or after else ""


def number(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e16 else f"{value:g}"


def type_of(wanted: dict[str, Any]) -> str:
    """The type that a schema wants, without the reference that may stand for it."""
    found = wanted.get("type", "")
    return str(found[0] if isinstance(found, list) else found)


def branches(wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """The alternatives of a schema, without the reference that may stand for any of them."""
    return [branch for branch in wanted.get("anyOf", [wanted]) if branch.get("$ref") != "#/$defs/reference"]


def wants(wanted: dict[str, Any]) -> str:
    """What a schema allows, as in `must be ...`."""
    if "anyOf" in wanted:
        parts = [wants(branch) for branch in branches(wanted)]
        return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    if "enum" in wanted and len(wanted["enum"]) > NAMES_SHOWN:
        return f"one of {listed([bare(value) for value in wanted['enum']])}"
    if "enum" in wanted:
        return " or ".join(f"`{bare(value)}`" for value in wanted["enum"])
    if "$ref" in wanted:
        name = wanted["$ref"].rpartition("/")[2]
        return f"one of {name}" if name[0].islower() else "a map"
    names = {"integer": "an integer", "number": "a number", "boolean": "true or false", "string": "text"}
    shape = type_of(wanted)
    name = names.get(shape) or {"null": "null", "array": "a list", "object": "a map"}[shape]
    limits = bounds(wanted) if wanted.get("maximum") != 2**53 - 1 else ""
    return f"{name} {limits}" if limits else name


def help_line(name: str, wanted: dict[str, Any]) -> str:
    """`ratio: share of entries kept (0 < ratio <= 1; default 0.01)`."""
    facts = _facts(name, wanted)
    about = wanted.get("description", "")
    if not about and not facts:
        return ""
    return f"{name}: {about}" + (f" ({facts})" if facts and about else facts)


def suggestion(name: str, wanted: dict[str, Any]) -> str:
    """The hint that names the nearest known argument: its range, its help, its default."""
    ranges = [allowed_range(name, branch) for branch in branches(wanted)]
    about = wanted.get("description", "")
    first = ": ".join(filter(None, [next(filter(None, ranges), ""), about]))
    rest = _default(wanted)
    facts = "; ".join(filter(None, [first, rest]))
    return f"did you mean `{name}`?" + (f"  ({facts})" if facts else "")


def _facts(name: str, wanted: dict[str, Any]) -> str:
    ranges = [allowed_range(name, branch) for branch in branches(wanted)]
    return "; ".join(filter(None, [*ranges, _default(wanted)]))


def _default(wanted: dict[str, Any]) -> str:
    if "x-from-data" in wanted:
        return f"default: the data's {wanted['x-from-data']}"
    return f"default {bare(wanted['default'])}" if "default" in wanted else ""
