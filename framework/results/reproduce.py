"""Does a second run give the numbers of the first? Row by row, and why not where not."""

from __future__ import annotations

import math
from typing import NamedTuple

from raycipe.framework.provenance import versions_for_numbers
from raycipe.framework.results.curves import series
from raycipe.framework.runs import Run, final_values

UNSTABLE = ("time/",)  # metrics that measure the machine, not the method
DEFAULT_TOLERANCE = 1e-5


class Mismatch(NamedTuple):
    """A metric that differs: `step` None for a final value."""

    metric: str
    step: int | None
    first: float
    second: float


class Verdict(NamedTuple):
    """`same` is `bitwise`, `within tolerance` or `different`."""

    same: str
    compared: int
    mismatches: list[Mismatch]
    missing: list[str]
    versions: dict[str, tuple[str, str]]


def compare_runs(first: Run, second: Run, tolerance: float = DEFAULT_TOLERANCE, until: int | None = None) -> Verdict:
    """Compare all rows and final values; relative differences up to `tolerance` count as within rounding.

    With `until` only the rows up to that step: the first run was stopped there.
    """
    one, two = values(first), values(second)
    if until is not None:
        one, two = (
            {key: value for key, value in both.items() if (key[1] or until + 1) <= until} for both in (one, two)
        )
    common = one.keys() & two.keys()
    unequal = [
        Mismatch(metric, step, one[metric, step], two[metric, step])
        for metric, step in sorted(common, key=lambda item: (item[1] is None, item[1] or 0, item[0]))
        if not same(one[metric, step], two[metric, step], 0.0)
    ]
    beyond = [item for item in unequal if not same(item.first, item.second, tolerance)]
    missing = sorted({metric for metric, _ in one.keys() ^ two.keys()})
    verdict = "different" if beyond or missing else "within tolerance" if unequal else "bitwise"
    return Verdict(verdict, len(common), beyond or unequal, missing, changed_versions(first, second))


def values(run: Run) -> dict[tuple[str, int | None], float]:
    """(metric, step) → value of every row, and (metric, None) for the final values."""
    found: dict[tuple[str, int | None], float] = {
        (name, step): value for name, points in series(run.rows()).items() for step, value in points
    }
    found |= {(name, None): value for name, value in final_values(run.read("result.json")).items()}
    return {key: value for key, value in found.items() if not key[0].startswith(UNSTABLE)}


def same(one: float, two: float, tolerance: float) -> bool:
    if not isinstance(one, (int, float)) or not isinstance(two, (int, float)):
        return one == two
    if math.isnan(one) or math.isnan(two):
        return math.isnan(one) and math.isnan(two)
    return one == two or math.isclose(one, two, rel_tol=tolerance, abs_tol=tolerance * 1e-3)


def changed_versions(first: Run, second: Run) -> dict[str, tuple[str, str]]:
    """What differs of the things that may change numbers: versions, processor, threads."""
    one = versions_for_numbers(first.read("provenance.json"))
    two = versions_for_numbers(second.read("provenance.json"))
    return {name: (one[name], two[name]) for name in one if one[name] != two[name]}
