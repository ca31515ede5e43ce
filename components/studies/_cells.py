"""Shared by the studies: how values are named, the table of all runs, means with intervals, and paired tests."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from raycipe.framework.contracts import Ended
from raycipe.framework.words import bare

MAX_SEED = 2**32 - 1


def seeds_of(seeds: int | list[int]) -> list[int]:
    """`3` means 0, 1, 2. Raises ValueError for a seed that is doubled or out of range."""
    if isinstance(seeds, int):
        return list(range(seeds))
    if len(set(seeds)) < len(seeds):
        raise ValueError("seeds: one stands twice")
    if any(not 0 <= seed <= MAX_SEED for seed in seeds):
        raise ValueError(f"seeds: must be >= 0 and <= {MAX_SEED}")
    return seeds


def label(value: Any) -> str:
    """A value as people write it: a component by its type and its arguments, in the order given."""
    if isinstance(value, Mapping) and "type" in value:
        rest = " ".join(f"{key}={label(child)}" for key, child in value.items() if key != "type")
        return f"{value['type']} {rest}".strip()
    return value if isinstance(value, str) else bare(value)


def slug(text: str) -> str:
    """As part of a metric's name."""
    return re.sub(r"[^A-Za-z0-9_.@%+-]+", "_", text).strip("_") or "_"


def labels_of(values: Sequence[Any], argument: str) -> list[str]:
    """The labels of a path's values. Raises ValueError for two that can't be told apart."""
    found = _short(values) or [label(value) for value in values]
    if len({slug(text) for text in found}) < len(found):
        raise ValueError(f"{argument}: two values can't be told apart: {', '.join(found)}")
    return found


def _short(values: Sequence[Any]) -> list[str]:
    """Components by the first thing that tells them apart: their type, or one argument; empty if nothing does."""
    maps = [value if isinstance(value, Mapping) else {"type": value} for value in values]
    if not any(isinstance(value, Mapping) for value in values):
        return []
    for key in ("type", *maps[0]):
        there = [each[key] for each in maps if isinstance(each.get(key), (str, int, float))]
        texts = [slug(label(value)) for value in there]
        if len(set(texts)) == len(maps):
            return texts if key == "type" or all(isinstance(value, str) for value in there) else []
    return []


def folder(number: int, *words: Any) -> str:
    """The name of a variation's run folder: in the order of variations, and short."""
    text = "-".join(slug(str(word)) for word in words)
    return f"{number:03d}-{text[:48]}".rstrip("-._")


class Spread(NamedTuple):
    """Mean, standard deviation (n - 1) and Student's confidence interval; NaN where too few values tell them."""

    runs: int
    mean: float
    sd: float
    low: float
    high: float

    def values(self, prefix: str = "") -> dict[str, float]:
        """For the report; what is not known is left out."""
        named = {"runs": self.runs, "mean": self.mean, "sd": self.sd, "low": self.low, "high": self.high}
        return {f"{prefix}{name}": float(value) for name, value in named.items() if not math.isnan(value)}


def spread(values: Sequence[float], confidence: float) -> Spread:
    n = len(values)
    mean = math.fsum(values) / n if n else math.nan
    if n < 2:
        return Spread(n, mean, math.nan, math.nan, math.nan)
    from scipy import stats

    sd = float(np.std(values, ddof=1))
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * sd / math.sqrt(n)
    return Spread(n, mean, sd, mean - half, mean + half)


def paired_p(differences: Sequence[float]) -> float:
    """The two-sided p-value of Student's paired test, from the differences; NaN for fewer than two.

    Differences that are all equal leave no doubt: p is 1 if they are 0, else 0.
    """
    if len(differences) < 2:
        return math.nan
    if max(differences) == min(differences):
        return 1.0 if differences[0] == 0 else 0.0
    from scipy import stats

    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down correction: the i-th smallest of m is multiplied by m - i + 1, and none is below the last."""
    known = sorted((p, name) for name, p in p_values.items() if not math.isnan(p))
    found: dict[str, float] = {}
    last = 0.0
    for position, (p, name) in enumerate(known):
        last = max(last, min(1.0, p * (len(known) - position)))
        found[name] = last
    return found


def metric_values(runs: Iterable[Ended], metric: str) -> dict[Any, float]:
    """seed -> the metric's final value, of the runs that ended with one."""
    return {run.variation.labels["seed"]: run.final[metric] for run in runs if tells(run, metric)}


def tells(run: Ended, metric: str) -> bool:
    """Whether a run ended with a number for the metric: one that is not finite would take mean and interval away."""
    return math.isfinite(run.final.get(metric, math.nan))


def grouped(runs: Sequence[Ended], name: str) -> dict[str, list[Ended]]:
    """The runs by one of their labels, in order."""
    found: dict[str, list[Ended]] = {}
    for run in runs:
        found.setdefault(run.variation.labels[name], []).append(run)
    return found


def table(runs: Sequence[Ended]) -> list[dict[str, Any]]:
    """One row a run: its labels, status, folder, and every final figure; None where a run has none."""
    metrics = sorted({name for run in runs for name in run.final})
    return [
        {
            **run.variation.labels,
            "status": run.result.get("status", "failed"),
            "run": run.folder.name,
            **{name: run.final.get(name) for name in metrics},
        }
        for run in runs
    ]


def missing(runs: Sequence[Ended], metric: str) -> dict[str, float]:
    """The number of runs that tell nothing of the metric, as a value of the report."""
    return {"missing": float(sum(not tells(run, metric) for run in runs))}


def dots(points: Mapping[str, Sequence[float]], confidence: float, metric: str) -> Any:
    """A row for each name: its values as dots, their mean and its interval."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 1.2 + 0.45 * len(points)), layout="constrained")
    axes = figure.subplots()
    for row, values in enumerate(points.values()):
        axes.plot(values, [row] * len(values), "o", color="#4c78a8", alpha=0.45, markersize=5)
        found = spread(values, confidence)
        if found.runs:
            axes.plot([found.mean], [row], "D", color="#f58518", markersize=6)
        if found.runs > 1:
            axes.plot([found.low, found.high], [row, row], color="#f58518", linewidth=2)
    axes.set_yticks(range(len(points)), list(points))
    axes.set(xlabel=metric, ylim=(len(points) - 0.5, -0.5))
    axes.set_title(f"single runs, mean and {confidence:.0%} interval", fontsize=10)
    return figure
