"""A recipe's claim: reads `expect`, and judges it against what a run reported.

metric:     NAME | FUN(NAME)                         FUN: last (default), first, min, max, mean
comparison: OP number [%] | ~ number ± number [%] | number .. number | OP [number *] metric [± number]
"""

from __future__ import annotations

import math
import re
from typing import Any

from raycipe.framework.words import nearest

NUMBER = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
NAME = r"[a-z][a-z0-9_]*(?:/[A-Za-z0-9_.@%+-]+)+"
METRIC = rf"(?:(?P<fun>last|first|min|max|mean)\(\s*(?P<inner>{NAME})\s*\)|(?P<name>{NAME}))"
OPERATOR = r"(?P<op>>=|<=|==|!=|>|<)"
FORMS = {  # compiled at their first use: most recipes need one of them
    "bound": rf"{OPERATOR}\s*(?P<a>{NUMBER})\s*(?P<percent>%?)\Z",
    "near": rf"~\s*(?P<a>{NUMBER})\s*(?:±|\+-)\s*(?P<b>{NUMBER})\s*(?P<percent>%?)\Z",
    "range": rf"(?P<a>{NUMBER})\s*\.\.\s*(?P<b>{NUMBER})\Z",
    "metric": rf"{OPERATOR}\s*(?:(?P<factor>{NUMBER})\s*\*\s*)?{METRIC}(?:\s*(?P<sign>[+-])\s*(?P<shift>{NUMBER}))?\Z",
}
ALLOWED = 'write ">= 0.95", "~ 0.5 ± 0.02", "0.4 .. 0.6" or "< val/loss"'


class Metric:
    """`mean(val/loss)`: a metric's name and what is taken of its values."""

    __slots__ = ("fun", "name")

    def __init__(self, name: str, fun: str) -> None:
        self.name = name
        self.fun = fun


class Comparison:
    """One wanted comparison: its form, and the parts that the form has."""

    __slots__ = ("form", "other", "parts")

    def __init__(self, form: str, parts: dict[str, str | None]) -> None:
        self.form = form
        self.parts = parts
        self.other = _metric(parts) if form == "metric" else None

    def number(self, part: str, missing: float = 0.0) -> float:
        text = self.parts.get(part)
        return float(text) if text else missing


def read_metric(text: str) -> Metric | None:
    """A metric as `expect` names it, or None if it has another form."""
    match = re.match(METRIC + r"\Z", text.strip())
    return _metric(match.groupdict()) if match else None


def _metric(parts: dict[str, str | None]) -> Metric:
    return Metric(parts["inner"] or parts["name"] or "", parts["fun"] or "last")


def read(text: str) -> Comparison | str:
    """The comparison that a text asks for, or what is wrong with it in words."""
    for form, pattern in FORMS.items():
        match = re.match(pattern, text.strip())
        if match:
            found = Comparison(form, match.groupdict())
            return _mistake(found) or found
    return "is no comparison"


def _mistake(found: Comparison) -> str:
    if not all(math.isfinite(found.number(part)) for part in ("a", "b", "factor", "shift")):
        return "holds a number that is not finite"
    if found.form == "range" and found.number("a") > found.number("b"):
        return "is a range whose lower end is above its upper end"
    return "has a negative tolerance" if found.form == "near" and found.number("b") < 0 else ""


def judge(
    expect: dict[str, str], final: dict[str, Any], history: dict[str, list[Any]], smoke: bool = False
) -> list[dict[str, Any]]:
    """One verdict per claim: {metric, wanted, value, verdict, margin, hint}.

    `final` holds the run's last values, `history` all of each metric in order; "NaN" is the number that it names.
    Verdicts: `met`, `unmet` (NaN always is), `missing` (no such metric), and with `smoke` `skipped`, where only the
    metric's presence as a finite number counts. `margin` is the signed distance to the bound, at least 0 when met.
    """
    return [_verdict(metric, wanted, final, history, smoke) for metric, wanted in expect.items()]


def _verdict(
    metric: str, wanted: str, final: dict[str, Any], history: dict[str, list[Any]], smoke: bool
) -> dict[str, Any]:
    found = read(wanted)
    left = read_metric(metric)
    if isinstance(found, str) or left is None:
        raise ValueError(f"expect: {metric}: {wanted} was not checked before the run")
    verdict: dict[str, Any] = {"metric": metric, "wanted": wanted, "value": None, "verdict": "missing", "margin": None}
    verdict["hint"] = ""
    for needed in (left, found.other):
        if needed is not None and _values(needed, final, history) is None:
            near = nearest(needed.name, final)
            known = f"did you mean `{near}`?" if near else f"reported: {', '.join(sorted(final)[:12]) or 'nothing'}"
            verdict["hint"] = f"no metric {needed.name}; {known}"
            return verdict
    value = _take(left, final, history)
    verdict["value"] = value if math.isfinite(value) else _not_finite(value)
    if smoke:
        verdict["verdict"] = "skipped" if math.isfinite(value) else "unmet"
        return verdict
    bound = _take(found.other, final, history) if found.other else 0.0
    margin, met = _margin(found, value, bound)
    verdict["margin"] = margin if math.isfinite(margin) else None
    verdict["verdict"] = "met" if met else "unmet"
    return verdict


def _margin(found: Comparison, x: float, other: float) -> tuple[float, bool]:
    """The signed distance to the bound, and whether the comparison holds (never for NaN)."""
    a, b = found.number("a"), found.number("b")
    if found.form == "near":
        tolerance = b / 100 * abs(a) if found.parts["percent"] else b
        return tolerance - abs(x - a), abs(x - a) <= tolerance
    if found.form == "range":
        return min(x - a, b - x), a <= x <= b
    if found.form == "metric":
        shift = found.number("shift") * (-1 if found.parts["sign"] == "-" else 1)
        a = found.number("factor", 1.0) * other + shift
    elif found.parts["percent"]:
        a = a / 100
    if math.isnan(x) or math.isnan(a):
        return math.nan, False
    distances = {">=": x - a, ">": x - a, "<=": a - x, "<": a - x, "==": -abs(x - a), "!=": abs(x - a)}
    holds = {">=": x >= a, ">": x > a, "<=": x <= a, "<": x < a, "==": x == a, "!=": x != a}
    operator = found.parts["op"] or ""
    return distances[operator], holds[operator]


def _values(metric: Metric, final: dict[str, Any], history: dict[str, list[Any]]) -> list[float] | None:
    if metric.fun == "last" and metric.name in final:
        return [float(final[metric.name])]
    values = [float(value) for value in history.get(metric.name, ())]
    return values or ([float(final[metric.name])] if metric.name in final else None)


def _take(metric: Metric, final: dict[str, Any], history: dict[str, list[Any]]) -> float:
    values = _values(metric, final, history) or [math.nan]
    if any(math.isnan(value) for value in values):
        return (
            math.nan if metric.fun != "first" and metric.fun != "last" else values[0 if metric.fun == "first" else -1]
        )
    take = {"last": values[-1], "first": values[0], "min": min(values), "max": max(values)}
    return take[metric.fun] if metric.fun in take else math.fsum(values) / len(values)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
