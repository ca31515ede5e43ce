"""The distributions of a sweep: what may be written, and the values that show whether an argument can take them."""

from __future__ import annotations

from raycipe.framework import words
from raycipe.framework.tree import Node

FINITE = ("choice", "grid")
FRACTIONS = ("uniform", "loguniform", "quniform", "qloguniform")
WHOLE = ("randint", "lograndint", "qrandint")
FORMS = (*FINITE, *FRACTIONS, *WHOLE, "normal")
MOST_STEPS = 10**9  # more could not be told apart
FAR = 1e300  # stands for the values of a distribution without bounds
SHAPES = "{choice: [a, b]}, {uniform: [low, high]}, {loguniform: [low, high]}, {randint: [low, high]}, ..."


class Mistake(Exception):
    """A distribution that is no distribution: where, what, and what to do."""

    def __init__(self, node: Node, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.node = node
        self.message = message
        self.hint = hint


def name_of(form: Node) -> str:
    """The distribution that a map tells, or an empty text."""
    if not isinstance(form.value, dict):
        return ""
    names = [key for key in form.value if key in FORMS]
    return names[0] if names and set(form.value) <= {names[0], "clip"} else ""


def values_of(form: Node, top: bool = False) -> list[tuple[int, Node]]:
    """Concrete values to check, each with the number (from 1) of the choice that it belongs to.

    Of a list every entry, of an interval its ends and a point inside. Raises Mistake.
    """
    name = name_of(form)
    if top and isinstance(form.value, list):
        return _entries(form, "choice")
    if not name:
        raise Mistake(form, f"must be a list or a distribution, not {words.told(form.value)}", SHAPES)
    if "clip" in form.value and name != "normal":
        raise Mistake(form.value["clip"], "only normal can be clipped")
    body = form.value[name]
    return _entries(body, name) if name in FINITE else [(1, value) for value in _interval(name, body, form)]


def _entries(body: Node, name: str) -> list[tuple[int, Node]]:
    if not isinstance(body.value, list) or not body.value:
        raise Mistake(body, f"{name} needs a list of values")
    return [(index, variant) for index, entry in enumerate(body.value, 1) for variant in _variants(entry)]


def _variants(entry: Node) -> list[Node]:
    """A component whose arguments may be distributions: one node per value of each, the others at their first."""
    if not isinstance(entry.value, dict):
        return [entry]
    options = {}
    for key, child in entry.value.items():
        options[key] = [value for _, value in values_of(child)] if name_of(child) else _variants(child)
    first = {key: values[0] for key, values in options.items()}
    variants = [Node(first, entry.at, entry.key_at)]
    for key, values in options.items():
        variants += [Node({**first, key: value}, entry.at, entry.key_at) for value in values[1:]]
    return variants


def _interval(name: str, body: Node, form: Node, told: str = "") -> list[Node]:
    """The ends and a point inside; `told` is what messages call the interval, if not by the distribution's name."""
    told = told or name
    wanted = 3 if name.startswith("q") else 2
    numbers = [entry.value for entry in body.value] if isinstance(body.value, list) else []
    if len(numbers) != wanted or any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in numbers):
        shape = "[mean, sd]" if name == "normal" else "[low, high, step]" if wanted == 3 else "[low, high]"
        raise Mistake(body, f"{told} needs {shape}, {'three' if wanted == 3 else 'two'} numbers")
    if name == "normal":
        return _normal(numbers, body, form)
    low, high = numbers[:2]
    if low >= high:
        raise Mistake(body, f"{told} needs low < high, not {words.bare(low)} and {words.bare(high)}")
    if "log" in name and low <= 0:
        raise Mistake(body, f"{name} needs low > 0, not {words.bare(low)}")
    if wanted == 3 and numbers[2] <= 0:
        raise Mistake(body, f"{name} needs a step > 0, not {words.bare(numbers[2])}")
    if wanted == 3 and (high - low) / numbers[2] > MOST_STEPS:
        raise Mistake(
            body, f"{name} has too many steps: take one of at least {(high - low) / MOST_STEPS:.1g}, or no step"
        )
    if name in WHOLE and any(float(n) != int(n) for n in numbers):
        raise Mistake(body, f"{name} needs integers")
    values = [*body.value[:2]]
    return values if name in WHOLE else [*values, Node(_inside(low, high, numbers[2:]), body.at)]


def _inside(low: float, high: float, step: list[float]) -> float:
    """A value between the ends that shows whether fractions fit: on the steps, if there are any."""
    if step:
        return low + step[0] if low + step[0] <= high else low
    point = low + (high - low) / 3
    return point if not float(point).is_integer() else low + (high - low) / 7


def _normal(numbers: list[float], body: Node, form: Node) -> list[Node]:
    if numbers[1] <= 0:
        raise Mistake(body, f"normal needs sd > 0, not {words.bare(numbers[1])}")
    clip = form.value.get("clip")
    if clip is not None:
        return _interval("uniform", clip, form, "clip of normal")
    # Unbounded: any bound of the argument is broken by one of these.
    return [Node(value, body.at) for value in (numbers[0] + 0.5 * numbers[1], -FAR, FAR)]
