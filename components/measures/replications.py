"""How often an estimator's intervals hold the truth, over fresh draws of its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from raycipe.framework.arguments import Count, Length, Range
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import build, register
from raycipe.framework.streams import key
from raycipe.framework.tables import roles_of, tables

TOGETHER = 10  # replicates of one task
SEEDS = 2**32
Row = dict[str, float]


@register
class Replications(Measure):
    """Draws the data again and again, fits the estimator to each, and counts how often its intervals hold the truth.

    For a number: coverage = share of replicates whose interval holds the true value, with its Clopper-Pearson interval.
    For a function: the share of fresh rows (the `test` split) whose pointwise interval does, averaged over replicates,
    with Student's interval. Replicates have seeds of their own and are the same wherever they run.

    Args:
        replicates: how many; 50 can't tell .92 from .97, 300 can
        first: number of the first one, so that blocks of replicates can run apart
        levels: of the calibration curve, nominal against counted coverage

    Reference:
        C. J. Clopper, E. S. Pearson, The Use of Confidence or Fiducial Limits, Biometrika 1934.

    Recipe:
        data: {type: causal_dgp, examples: 100}
        estimator: gbayes_causal
        measures: [{type: replications, replicates: 20}]
    """

    needs: ClassVar[tuple[str, ...]] = ("estimator",)
    reports: ClassVar[tuple[str, ...]] = (
        *("replicates", "points", "coverage", "coverage_sd", "coverage_low", "coverage_high"),
        *("length", "bias", "rmse", "flagged"),
    )

    def __init__(
        self,
        replicates: Count = 100,
        first: Annotated[int, Range(ge=0, le=10**9)] = 0,
        levels: Annotated[list[Annotated[float, Range(gt=0, lt=1)]], Length(1, 50)] = [0.5, 0.8, 0.9, 0.95, 0.99],  # noqa: B006 (never changed)
    ) -> None:
        self.replicates = replicates
        self.first = first
        self.levels = levels

    def measure(self, trained: Trained) -> Measured:
        if not hasattr(trained.estimator, "interval"):
            raise Skipped("the estimator tells no intervals")
        numbers = range(self.first, self.first + self.replicates)
        blocks = [numbers[at : at + TOGETHER] for at in range(0, len(numbers), TOGETHER)]
        work = partial(replicate, dict(trained.recipe), trained.seed, tuple(self.levels))
        rows = [row for block in trained.fan_out(work, blocks) for row in block]
        values = summarize(rows)
        curve = [
            {"nominal": level, "counted": float(np.mean([row[f"inside_{level}"] for row in rows]))}
            for level in self.levels
        ]
        return Measured(
            values=values,
            tables={"replicates": list(rows), "levels": curve},
            figures={"levels": lambda: draw(curve, len(rows))},
        )


def replicate(recipe: Mapping[str, Any], seed: int, levels: Sequence[float], numbers: Sequence[int]) -> list[Row]:
    """The rows of some replicates; runs in whatever process."""
    return [one(recipe, int(key(seed, "replicate", number) % SEEDS), levels, number) for number in numbers]


def one(recipe: Mapping[str, Any], seed: int, levels: Sequence[float], number: int) -> Row:
    """A fresh draw of the data, a fit, and what its intervals hold."""
    data = build(recipe["data"], "data", "data")
    found = tables(data.load(seed))
    estimator = build(recipe["estimator"], "estimators", "estimator", {"seed": seed}, data.facts)
    train = found["train"]
    estimator.fit(train["X"], train["y"], **roles_of(train))
    seen = estimator.summary()
    row = {"replicate": float(number), "flagged": float(seen.get("overlap") == 0)}
    if "covered" in seen and not estimator.is_function:
        X, truth = train["X"][:1], np.array([seen["truth"]])
    else:
        X, truth = fresh(estimator, found)
    low, high = estimator.interval(X)
    error = estimator.predict(X) - truth
    row.update(points=float(len(truth)), inside=inside(low, high, truth), length=float((high - low).mean()))
    row.update(error=float(error.mean()), rmse=float(np.sqrt((error**2).mean())))
    for level in levels:
        low, high = estimator.interval(X, level)
        row[f"inside_{level}"] = inside(low, high, truth)
    return row


def fresh(estimator: Any, found: Mapping[str, Mapping[str, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows that the fit has not seen, and their true effects."""
    if not estimator.is_function or "truth" not in found.get("test", {}):
        raise Skipped("the data does not know the true effect (for a function, of the `test` split's rows)")
    test = found["test"]
    return test["X"], test["truth"][:, -1].astype(np.float64) - test["truth"][:, -2]


def inside(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> float:
    return float(((low <= truth) & (truth <= high)).mean())


def summarize(rows: Sequence[Row]) -> Row:
    n = len(rows)
    share = np.array([row["inside"] for row in rows])
    points = rows[0]["points"]
    sd = float(share.std(ddof=1)) if n > 1 else 0.0
    low, high = coverage_interval(float(share.mean()), sd, n, points)
    return {
        "replicates": float(n),
        "points": points,
        "coverage": float(share.mean()),
        "coverage_sd": sd,
        "coverage_low": low,
        "coverage_high": high,
        "length": float(np.mean([row["length"] for row in rows])),
        "bias": float(np.mean([row["error"] for row in rows])),
        "rmse": float(np.sqrt(np.mean([row["rmse"] ** 2 for row in rows]))),
        "flagged": float(np.mean([row["flagged"] for row in rows])),
    }


def coverage_interval(
    coverage: float, sd: float, n: int, points: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Of a coverage counted in n replicates: Clopper and Pearson's for one point each, else Student's."""
    from scipy import stats

    tail = (1 - confidence) / 2
    if points == 1:
        hits = round(coverage * n)
        low = float(stats.beta.ppf(tail, hits, n - hits + 1)) if hits else 0.0
        high = float(stats.beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
        return low, high
    half = float(stats.t.ppf(1 - tail, n - 1)) * sd / n**0.5 if n > 1 else 1.0
    return max(0.0, coverage - half), min(1.0, coverage + half)


def draw(curve: Sequence[Mapping[str, float]], replicates: int) -> Any:
    """Nominal against counted coverage."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.6", linestyle="--")
    axes.plot([row["nominal"] for row in curve], [row["counted"] for row in curve], "o-", color="#4c78a8")
    axes.set(xlabel="nominal level", ylabel="counted coverage", xlim=(0, 1), ylim=(0, 1))
    axes.set_title(f"{replicates} replicates", fontsize=10)
    return figure
