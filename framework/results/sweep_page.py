"""sweep.html: one self-contained page about a sweep, opened from disk."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from raycipe.framework.results.curves import COLORS, series, spans_decades, to_svg
from raycipe.framework.results.report import short, text_of
from raycipe.framework.results.trials import Trial, counted, objectives_of, pareto, ranked, read_trials
from raycipe.framework.results.turned import short_names
from raycipe.framework.runs import Run

PAGE = "sweep.html"
FEWEST_FOR_IMPORTANCE = 8  # trials
MAX_LINES = 300  # of parallel coordinates and curves; the best ones are drawn
GREY = "#98a2b3"
LOG_FROM = 20  # the ratio of the ends from which on an axis is logarithmic


def write_sweep_page(run: Run) -> Path:
    """Write `sweep.html` into the sweep's run folder and return its path."""
    run.write(PAGE, render(run))
    return run.path / PAGE


def render(run: Run) -> str:
    from jinja2 import Environment, FileSystemLoader

    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
    pages.filters["short"] = short
    sweep = run.resolved()["sweep"]
    goals = objectives_of(sweep)
    trials = read_trials(run, sweep)
    best = ranked(trials, goals)
    paths = list(dict.fromkeys(path for trial in trials for path in trial.settings))
    metric, mode = next(iter(goals.items()))
    found = importance(best, paths, metric)
    return pages.get_template("sweep.html.j2").render(
        run=run,
        sweep=sweep,
        goals=goals,
        metric=metric,
        mode=mode,
        trials=trials,
        counts=counted(trials),
        best=best[0] if best else None,
        titles=short_names(paths),
        rows=[*best, *(trial for trial in trials if trial not in best)],
        coordinates=coordinates(best, paths, metric, mode) if len(best) > 1 else "",
        importance=found,
        curves=curves(best, metric),
        front=picture_of_front(trials, goals) if len(goals) > 1 and best else "",
        recipe=text_of(run, "best.yaml"),
    )


# ---------------------------------------------------------------------------------------------- importance


class Importance(NamedTuple):
    """How much each value matters: (path, share of the sum) by size, and how well the forest knows the metric."""

    shares: list[tuple[str, float]]
    score: float


def importance(trials: Sequence[Trial], paths: Sequence[str], metric: str) -> Importance | None:
    """Permutation importance of a random forest that predicts the metric's rank from the values.

    Ranks, since one diverging trial would else be all there is to explain. None where trials are too few to say
    anything. `score` is the forest's R² on the trials that each of its trees has not seen.
    """
    if len(trials) < FEWEST_FOR_IMPORTANCE or not paths:
        return None
    import numpy as np
    from scipy.stats import rankdata
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance

    columns = np.column_stack([encoded([trial.settings.get(path) for trial in trials]) for path in paths])
    ranks = rankdata([trial.values[metric] for trial in trials])
    forest = RandomForestRegressor(200, oob_score=True, random_state=0).fit(columns, ranks)
    means = permutation_importance(forest, columns, ranks, n_repeats=10, random_state=0).importances_mean.clip(min=0)
    total = float(means.sum()) or 1.0
    shares = sorted(((path, float(mean) / total) for path, mean in zip(paths, means, strict=True)), key=lambda x: -x[1])
    return Importance(shares, float(forest.oob_score_))


def encoded(values: Sequence[Any]) -> list[float]:
    """One column of numbers: a number is itself, a word its place in the alphabet, what a trial lacks is -1e9."""
    if all(value is None or is_number(value) for value in values):
        return [-1e9 if value is None else float(value) for value in values]
    words = sorted({str(value) for value in values})
    return [float(words.index(str(value))) for value in values]


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# ---------------------------------------------------------------------------------------------- parallel coordinates


class Axis:
    """One axis of the parallel coordinates: where a value stands on it, from 0 (below) to 1, and its ticks."""

    def __init__(self, values: Sequence[Any]) -> None:
        known = [value for value in values if value is not None]
        numbers = [float(value) for value in known if is_number(value)]
        self.words = [] if len(numbers) == len(known) else sorted({str(value) for value in known})
        self.log = not self.words and bool(numbers) and min(numbers) > 0 and max(numbers) > LOG_FROM * min(numbers)
        self.low, self.high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)

    def place(self, value: Any) -> float | None:
        if value is None:
            return None
        if self.words:
            return self.words.index(str(value)) / max(1, len(self.words) - 1) if len(self.words) > 1 else 0.5
        if self.low == self.high:
            return 0.5
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (float(value) - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """(place, label)"""
        if self.words:
            return [(self.place(word) or 0.0, word) for word in self.words]
        if self.low == self.high:
            return [(0.5, f"{self.low:.3g}")]
        middle = math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2
        return [(self.place(value) or 0.0, f"{value:.3g}") for value in (self.low, middle, self.high)]


WIDTH, HEIGHT, TOP, SIDE = 168, 250, 34, 30  # of an axis' strip, of the axes, and around them


def coordinates(trials: Sequence[Trial], paths: Sequence[str], metric: str, mode: str) -> str:
    """Parallel coordinates as SVG: a line a trial from value to value to the metric, the better the bluer."""
    from markupsafe import escape

    shown = list(trials[:MAX_LINES])
    titles = short_names(paths)
    columns = {titles[path]: [trial.settings.get(path) for trial in shown] for path in paths}
    columns = {title: values for title, values in columns.items() if len(set(map(str, values)) - {"None"}) > 1}
    columns[metric] = [trial.values[metric] for trial in shown]
    axes = {title: Axis(values) for title, values in columns.items()}
    width = WIDTH * (len(axes) - 1) + 2 * SIDE + 90
    least, most = min(width, 130 * len(axes)), 3 * width // 2  # two axes need not fill the page
    style = f"min-width:{least}px;max-width:{most}px"
    lines = [f'<svg viewBox="0 0 {width} {HEIGHT + TOP + 16}" style="{style}" role="img">']
    for place in reversed(range(len(shown))):  # the best is drawn last, on top
        color, look = line_look(place, len(shown))
        points = [(SIDE + WIDTH * x, axes[title].place(columns[title][place])) for x, title in enumerate(axes)]
        path = "M" + " L".join(f"{x:.0f},{_height(y):.1f}" for x, y in points if y is not None)
        note = f"<title>trial {shown[place].name}: {metric} {short(shown[place].values[metric])}</title>"
        lines.append(f'<path d="{path}" fill="none" stroke="{color}" {look}>{note}</path>')
    for x, (title, axis) in enumerate(axes.items()):
        left = SIDE + WIDTH * x
        lines.append(f'<line x1="{left}" x2="{left}" y1="{TOP}" y2="{TOP + HEIGHT}" stroke="#475467"/>')
        anchor = "start" if x == 0 else "middle"
        lines.append(f'<text x="{left}" y="16" text-anchor="{anchor}" class="axis">{escape(title)}</text>')
        for place_, label in axis.ticks():
            lines.append(f'<text x="{left + 6}" y="{_height(place_) + 4:.1f}" class="tick">{escape(label[:22])}</text>')
    return "".join([*lines, "</svg>"])


def _height(place: float) -> float:
    return TOP + HEIGHT * (1 - place)


def line_look(place: int, count: int) -> tuple[str, str]:
    """Colour and width of the trial at a place of the ranking, the best at 0: from blue to grey."""
    if place == 0:
        return "#dc2626", 'stroke-width="2.6"'
    share = place / max(1, count - 1)
    first, last = (29, 78, 216), (208, 213, 221)
    color = "#" + "".join(f"{round(a + (b - a) * share**0.7):02x}" for a, b in zip(first, last, strict=True))
    return color, f'stroke-width="1.3" stroke-opacity="{0.9 - 0.4 * share:.2f}"'


# ---------------------------------------------------------------------------------------------- pictures


def curves(trials: Sequence[Trial], metric: str) -> str:
    """The metric over the steps, of every trial that reported it more than once; "" where none did."""
    from matplotlib.figure import Figure

    found = {trial.name: series(trial.run.rows()).get(metric, []) for trial in trials[:MAX_LINES]}
    lines = {name: points for name, points in found.items() if len(points) > 1}
    if not lines:
        return ""
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    axes = figure.subplots()
    best = trials[0].name if trials[0].name in lines else None
    for name, points in lines.items():
        if name != best:
            axes.plot(*zip(*points, strict=True), color=GREY, linewidth=0.9, alpha=0.55)
    if best is not None:
        steps, values = zip(*lines[best], strict=True)
        axes.plot(steps, values, color="#dc2626", linewidth=2, label=f"best, trial {best}")
        axes.legend(frameon=False, fontsize=8)
    axes.set_xlabel("step")
    axes.set_ylabel(metric)
    if spans_decades([value for points in lines.values() for _, value in points]):
        axes.set_yscale("log")
    _plain(axes)
    return to_svg(figure)


def picture_of_front(trials: Sequence[Trial], goals: Mapping[str, str]) -> str:
    """The first two objectives of each trial, and the trials that no other one beats in all of them."""
    from matplotlib.figure import Figure

    (first, _), (second, _) = list(goals.items())[:2]
    known, front = ranked(trials, goals), pareto(trials, goals)
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.scatter([t.values[first] for t in known], [t.values[second] for t in known], s=16, color=GREY, label="trials")
    edge = sorted(front, key=lambda trial: trial.values[first])
    axes.plot(
        [trial.values[first] for trial in edge],
        [trial.values[second] for trial in edge],
        "o-" if len(goals) == 2 else "o",
        color=COLORS[0],
        markersize=4.5,
        linewidth=1,
        label="beaten by no other",
    )
    for trial in edge:
        axes.annotate(
            trial.name,
            (trial.values[first], trial.values[second]),
            fontsize=7,
            xytext=(3, 3),
            textcoords="offset points",
        )
    axes.set_xlabel(f"{first} ({goals[first]})")
    axes.set_ylabel(f"{second} ({goals[second]})")
    axes.legend(frameon=False, fontsize=8)
    _plain(axes)
    return to_svg(figure)


def _plain(axes: Any) -> None:
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
