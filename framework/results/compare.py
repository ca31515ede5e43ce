"""Runs beside each other: one table of what differs and what came out, and their curves in one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from raycipe.framework.errors import RunError
from raycipe.framework.results.curves import draw, panels, series
from raycipe.framework.results.diff import ABSENT, shown
from raycipe.framework.runs import Run, final_values

NOT_COMPARED = ("about", "paper", "track", "profiles", "sweep", "expect", "extends")


class Comparison(NamedTuple):
    """Rows of equal length, one entry a run: `settings` differ between the runs, `metrics` are final values.

    What a sweep or a study varied comes first in `settings` (`varied` of them), then what all runs have, then what
    belongs to some runs' components alone; the metrics that it judged (`judged`) come first in `metrics`.
    """

    runs: list[Run]
    settings: dict[str, list[str]]
    metrics: dict[str, list[float | None]]
    varied: int
    judged: list[str]


def compare(runs: Sequence[Run]) -> Comparison:
    if len({run.path for run in runs}) < 2:
        raise RunError("run", "compare: needs at least two different runs", "raycipe runs lists them")
    settings = [leaves({k: v for k, v in run.resolved().items() if k not in NOT_COMPARED}) for run in runs]
    paths = dict.fromkeys(path for leaf in settings for path in leaf)
    values = {path: [shown(leaf.get(path, ABSENT)) for leaf in settings] for path in paths}
    differing = {path: row for path, row in values.items() if len(set(row)) > 1}
    varied = [path for path in varied_paths(runs) if path in differing]
    rest = [path for path in differing if path not in varied]
    rest.sort(key=lambda path: shown(ABSENT) in differing[path])
    finals = [final_values(run.read("result.json")) for run in runs]
    names = dict.fromkeys(name for final in finals for name in final)
    judged = [name for name in judged_metrics(runs) if name in names]
    return Comparison(
        list(runs),
        {path: differing[path] for path in (*varied, *rest)},
        {name: [final.get(name) for final in finals] for name in dict.fromkeys((*judged, *names))},
        len(varied),
        judged,
    )


def varied_paths(runs: Sequence[Run]) -> list[str]:
    """The paths that sweeps and studies gave these runs, as their trials, values for; in the order of the space."""
    found: dict[str, None] = {}
    for run in runs:
        changes = run.read("provenance.json").get("changes") or {} if run.parent else {}
        for path, value in changes.items():
            found |= dict.fromkeys(leaves(value, path))
    order = [key for above in parents(runs) for key in (above.resolved().get("sweep") or {}).get("space") or {}]
    return sorted(
        found, key=lambda path: next((i for i, key in enumerate(order) if f"{path}.".startswith(f"{key}.")), len(order))
    )


def judged_metrics(runs: Sequence[Run]) -> list[str]:
    """What the sweeps and studies whose trials these runs are looked at."""
    found: dict[str, None] = {}
    for above in parents(runs):
        recipe = above.resolved()
        sweep, study = recipe.get("sweep") or {}, recipe.get("study")
        found |= dict.fromkeys(sweep.get("objectives") or ([sweep["metric"]] if sweep.get("metric") else []))
        if isinstance(study, Mapping) and isinstance(study.get("metric"), str):
            found[study["metric"]] = None
    return list(found)


def parents(runs: Sequence[Run]) -> list[Run]:
    """The sweeps and studies whose trials these runs are."""
    return list({str(run.parent.path): run.parent for run in runs if run.parent}.values())


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Dotted path → value for every scalar or list of scalars."""
    if isinstance(value, Mapping) and value:
        found: dict[str, Any] = {}
        for key, child in value.items():
            found |= leaves(child, f"{path}.{key}" if path else key)
        return found
    if isinstance(value, list) and any(isinstance(child, (Mapping, list)) for child in value):
        found = {}
        for index, child in enumerate(value):
            found |= leaves(child, f"{path}.{index}")
        return found
    return {path: value}


def labels(runs: Sequence[Run]) -> list[str]:
    """Short names that tell the runs apart."""
    if len({run.parent.path if run.parent else None for run in runs}) == 1 and runs[0].parent:
        return [run.path.name for run in runs]  # trials of one run
    same = len({run.name for run in runs}) == 1
    return [run.id[-4:] if same else f"{run.name} {run.id[-4:]}" for run in runs]


def write_page(comparison: Comparison, path: Path) -> None:
    """A self-contained page: table of differences and results, overlaid curves."""
    from jinja2 import Environment, FileSystemLoader

    from raycipe.framework.files import write_atomic
    from raycipe.framework.results.report import short

    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
    pages.filters["short"] = short
    names = labels(comparison.runs)
    lines = [series(run.rows()) for run in comparison.runs]
    metrics = {name for found in lines for name, points in found.items() if len(points) > 1}
    pictures = [
        draw(metric, {label: found[metric] for label, found in zip(names, lines, strict=True) if metric in found})
        for members in panels(metrics).values()
        for metric in members
    ]
    best = {metric: leading(metric, values) for metric, values in comparison.metrics.items()}
    text = pages.get_template("compare.html.j2").render(
        comparison=comparison, labels=names, pictures=pictures, best=best
    )
    write_atomic(path, text)


def leading(metric: str, values: Sequence[float | None]) -> int | None:
    """Index of the best run for metrics whose good direction is known by name; None for all others and for ties."""
    known = [(value, index) for index, value in enumerate(values) if value is not None and value == value]
    last = metric.rpartition("/")[2]
    if len(known) < 2 or len({value for value, _ in known}) == 1:
        return None
    if last in ("accuracy", "balanced_accuracy", "worst_recall", "auroc", "f1", "precision", "recall", "r2"):
        return max(known)[1]
    if last in ("loss", "perplexity", "rmse", "mae", "mse", "ece", "mce", "bits_per_token"):
        return min(known)[1]
    return None
