"""The comparison of many runs as a table with one row a run, in the columns that a terminal has room for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from raycipe.framework.expect import read_metric
from raycipe.framework.results.compare import Comparison, labels, leading
from raycipe.framework.results.diff import ABSENT, shown
from raycipe.framework.results.report import short

WIDEST = 24  # characters of a cell; longer texts are cut
GAP = 2  # between columns
KEPT_FOR_METRICS = 2  # columns that settings leave free
NOT_SET = shown(ABSENT)
ORDER = ("test", "val", "eval", "rl", "study", "measure", "train")  # groups of metrics, the telling ones first


class Column(NamedTuple):
    """One column: a title, a cell for each run, and the row of the best run where that is known."""

    title: str
    cells: list[str]
    best: int | None = None

    @property
    def width(self) -> int:
        return max(map(len, (self.title, *self.cells)))


class Turned(NamedTuple):
    """The columns that fit, the runs' names first, and the paths of those that are left out."""

    columns: list[Column]
    left_out: list[str]


def turn(comparison: Comparison, room: int) -> Turned:
    """The runs' names, the settings that differ and the main metrics, in at most `room` characters a row.

    Of trials the values that were varied come first; what else differs, and what belongs to some runs' components
    alone, stands behind the metrics where there is room.
    """
    titles = short_names(comparison.settings)
    settings = {
        path: Column(titles[path], [cut(plain(cell)) for cell in row]) for path, row in comparison.settings.items()
    }
    paths = list(settings)
    first = paths[: comparison.varied] or [path for path in paths if NOT_SET not in comparison.settings[path]]
    metrics = {}
    for name, title in short_metrics(main_metrics(comparison)).items():
        values = comparison.metrics[name]
        metrics[name] = Column(title, [short(value) for value in values], leading(name, values))
    names = Column("run", labels(comparison.runs))
    kept = sum(column.width + GAP for column in list(metrics.values())[:KEPT_FOR_METRICS])
    chosen = _fitting({path: settings[path] for path in first}, room - names.width - min(kept, room // 2))
    for more in (metrics, {path: settings[path] for path in paths if path not in first}):
        used = names.width + sum(column.width + GAP for column in chosen.values())
        chosen |= _fitting(more, room - used)
    left_out = [path for path in (*settings, *metrics) if path not in chosen]
    return Turned([names, *chosen.values()], left_out)


def plain(cell: str) -> str:
    """A value in a row: words without quotes, numbers with six digits, nothing where it is not set."""
    if cell == NOT_SET:
        return ""
    value = json.loads(cell)
    return value if isinstance(value, str) else short(value) if isinstance(value, float) else cell


def _fitting(columns: dict[str, Column], room: int) -> dict[str, Column]:
    """Those that fit, in their order; a wide one does not keep out the narrow ones behind it."""
    found: dict[str, Column] = {}
    for path, column in columns.items():
        if column.width + GAP <= room:
            found[path] = column
            room -= column.width + GAP
    return found


def main_metrics(comparison: Comparison) -> list[str]:
    """Metrics that tell the runs apart: what the sweep, the study or the recipes judge first, then by group; equal ones
    are left out."""
    judged = set(comparison.judged) or {name for run in comparison.runs for name in _judged(run.read("result.json"))}
    differing = [name for name, values in comparison.metrics.items() if len(set(map(str, values))) > 1]
    return sorted(differing, key=lambda name: (name not in judged, _rank(name)))


def _judged(result: dict[str, object]) -> Iterable[str]:
    """Metrics that the recipe's `expect`, `keep_best` or `early_stop` names."""
    expect, best = result.get("expect"), result.get("best")
    for item in expect if isinstance(expect, list) else []:
        metric = read_metric(str(item.get("metric")))
        if metric:
            yield metric.name
    yield from best if isinstance(best, dict) else ()


def _rank(name: str) -> int:
    group = name.partition("/")[0]
    return ORDER.index(group) if group in ORDER else len(ORDER)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """For each dotted path its shortest end that no other path has: `lr` for `optimizer.lr`."""
    ends = {path: _ends(path.split(".")) for path in paths}
    uses = Counter(end for found in ends.values() for end in found)
    return {path: next((end for end in found if uses[end] == 1), path) for path, found in ends.items()}


def _ends(words: list[str]) -> list[str]:
    """The ends that a path can be told by, short ones first; an index or `type` alone says nothing."""
    starts = [n for n in reversed(range(len(words))) if not (words[n].isdigit() or words[n] == "type")]
    return [".".join(words[n:]) for n in starts]


def short_metrics(names: Iterable[str]) -> dict[str, str]:
    """A measure's numbers by their last word where no other has it; others keep their group: `test/accuracy`."""
    lasts = {name: name.rpartition("/")[2] for name in names}
    uses = Counter(lasts.values())
    return {name: last if name.count("/") > 1 and uses[last] == 1 else name for name, last in lasts.items()}


def cut(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
