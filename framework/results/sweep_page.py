"""sweep.html: one self-contained page about a sweep, opened from disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from raycipe.framework.results.coordinates import MAX_LINES, RED, coordinates, is_number
from raycipe.framework.results.curves import COLORS, series, spans_decades, to_svg
from raycipe.framework.results.report import short, text_of
from raycipe.framework.results.trials import Trial, counted, objectives_of, pareto, ranked, read_trials, swept_paths
from raycipe.framework.results.turned import short_names
from raycipe.framework.runs import Run

PAGE = "sweep.html"
FEWEST_FOR_IMPORTANCE = 8  # trials
GREY = "#98a2b3"


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
    paths = swept_paths(trials, sweep.get("space") or {})
    return pages.get_template("sweep.html.j2").render(
        run=run,
        sweep=sweep,
        goals=goals,
        trials=trials,
        counts=counted(trials),
        best=best[0] if best else None,
        front=pareto(trials, goals) if len(goals) > 1 else [],
        titles=short_names(paths),
        rows=[*best, *(trial for trial in trials if trial not in best)],
        coordinates=coordinates(best, paths, goals) if len(best) > 1 else None,
        importances={goal: importance(best, paths, goal) for goal in goals},
        fewest=FEWEST_FOR_IMPORTANCE,
        known=len(best),
        curves={goal: curves(best, goal, "best" if len(goals) == 1 else f"best {next(iter(goals))}") for goal in goals},
        picture=picture_of_front(trials, goals) if len(goals) > 1 and best else "",
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


# ---------------------------------------------------------------------------------------------- pictures


class Curves(NamedTuple):
    """A picture, and how many trials are points in it: they reported the metric once; some were stopped then."""

    picture: str
    points: int
    stopped: int


def curves(trials: Sequence[Trial], metric: str, first: str) -> Curves | None:
    """The metric over the steps; None where no trial reported it more than once. `first` says what trial 0 is."""
    from matplotlib.figure import Figure

    found = {trial.name: series(trial.run.rows()).get(metric, []) for trial in trials[:MAX_LINES]}
    lines = {name: points for name, points in found.items() if points}
    single = [points[0] for points in lines.values() if len(points) == 1]
    if len(single) == len(lines):
        return None
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    axes = figure.subplots()
    best = trials[0].name if trials[0].name in lines else None
    for name, points in lines.items():
        if name != best and len(points) > 1:
            axes.plot(*zip(*points, strict=True), color=GREY, linewidth=0.9, alpha=0.55)
    if single:
        axes.plot(*zip(*single, strict=True), "o", color=GREY, markersize=4, alpha=0.8, label="reported once")
    if best is not None:
        steps, values = zip(*lines[best], strict=True)
        axes.plot(steps, values, color=RED, linewidth=2, label=f"{first}, trial {best}")
    axes.legend(frameon=False, fontsize=8)
    axes.set_xlabel("step")
    axes.set_ylabel(metric)
    if spans_decades([value for points in lines.values() for _, value in points]):
        axes.set_yscale("log")
    _plain(axes)
    stopped = sum(trial.status == "stopped" and len(lines.get(trial.name, ())) == 1 for trial in trials)
    return Curves(to_svg(figure), len(single), stopped)


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
