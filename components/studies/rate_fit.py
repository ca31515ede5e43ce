"""With which power of something a figure falls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np

from raycipe.components.studies import _cells as cells
from raycipe.framework.arguments import Length, Range, Variations
from raycipe.framework.contracts import Ended, Measured, Study, Variation
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

RESAMPLES = 2000


@register
class RateFit(Study):
    """The slope of log(metric) against log(x), over recipes that differ in size: the exponent of a power law.

    Each point's metric is the mean over seeds; the slope is that of least squares through the points, its interval the
    percentiles of a bootstrap over seeds (none with one seed). `missing` counts runs without a positive figure. With
    `curves` a line is fitted for each combination of values, and `range` is how far their slopes lie apart.

    Args:
        points: dotted path -> its value at the first point, the second, ...: lists of one length
        x: dotted paths whose product is a point's size, e.g. [train.batch_size, train.steps]
        metric: the figure in question; it must be positive
        curves: dotted path -> values, a line each
        seeds: how many (0, 1, ...), or which ones
        confidence: of the intervals

    Reference:
        B. Efron, Bootstrap Methods: Another Look at the Jackknife, Annals of Statistics, 1979.

    Recipe:
        data: synthetic_regression
        model: linear
        task: regression
        optimizer: {type: sgd, lr: 0.01}
        resources: {num_workers: 0}
        study:
          {type: rate_fit, metric: train/loss, x: [train.steps], points: {train.steps: [5, 10]}}
    """

    reports: ClassVar[tuple[str, ...]] = ("slope", "slope_low", "slope_high", "r2", "range", "missing")

    def __init__(
        self,
        points: Variations,
        x: Annotated[list[str], Length(1, 10)],
        metric: str,
        curves: Variations = {},  # noqa: B006 (only read)
        seeds: Annotated[int, Range(ge=1, le=10**5)] | Annotated[list[int], Length(1, 10**5)] = 1,
        confidence: Annotated[float, Range(gt=0, lt=1)] = 0.95,
    ) -> None:
        lengths = {len(values) for values in points.values()}
        if len(lengths) != 1 or min(lengths) < 2:
            raise ValueError(f"points: need two or more, and a value of each path at every one, not {sorted(lengths)}")
        self.points = points
        self.x = x
        self.metric = metric
        self.curves = curves
        cells.seeds_of(seeds)  # its range check
        self.seeds = seeds
        self.confidence = confidence

    def variations(self, recipe: Mapping[str, Any]) -> list[Variation]:
        found: list[Variation] = []
        for curve, line_changes in self._curves():
            for point in range(len(next(iter(self.points.values())))):
                changes = {**line_changes, **{path: values[point] for path, values in self.points.items()}}
                labels = {"curve": curve, "point": point, "x": self._size(recipe, changes)}
                for seed in cells.seeds_of(self.seeds):
                    name = cells.folder(len(found), curve, f"point{point}", f"seed{seed}")
                    found.append(Variation(name, {"seed": seed, **changes}, {**labels, "seed": seed}))
        if len({variation.labels["x"] for variation in found}) < 2:
            raise ValueError("x: all points have the same size")
        return found

    def _curves(self) -> list[tuple[str, dict[str, Any]]]:
        """(name, changes) of each combination."""
        texts = {path: cells.labels_of(values, "curves") for path, values in self.curves.items()}
        found = []
        for places in product(*(range(len(values)) for values in self.curves.values())):
            at = dict(zip(self.curves, places, strict=True))
            name = " ".join(texts[path][place] for path, place in at.items()) or "all"
            found.append((name, {path: self.curves[path][place] for path, place in at.items()}))
        return found

    def _size(self, recipe: Mapping[str, Any], changes: Mapping[str, Any]) -> float:
        """The product of the values at the paths of `x`, as a variation has them."""
        product_ = 1.0
        for path in self.x:
            value: Any = changes.get(path, _at(recipe, path))
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
                raise ValueError(f"x: {path} must be a positive number, not {value}")
            product_ *= value
        return product_

    def conclude(self, recipe: Mapping[str, Any], runs: Sequence[Ended]) -> Measured:
        lines = {curve: self._points(group) for curve, group in cells.grouped(runs, "curve").items()}
        without = sum(not run.final.get(self.metric, 0.0) > 0 for run in runs)
        values, fits = {"missing": float(without)}, {}
        for curve, points in lines.items():
            fit = fitted(points, self.confidence)
            if fit is not None:
                fits[curve] = fit
                values.update({f"{cells.slug(curve)}/{name}": number for name, number in fit.items()})
        slopes = [fit["slope"] for fit in fits.values()]
        if len(slopes) > 1:
            values["range"] = max(slopes) - min(slopes)
        rows = [
            {"curve": curve, "x": x, "runs": len(found), "mean": math.fsum(found) / len(found)}
            for curve, points in lines.items()
            for x, found in points
        ]
        return Measured(values, {"rate": lambda: self._draw(lines, fits)}, {"points": rows, "runs": cells.table(runs)})

    def _points(self, runs: Sequence[Ended]) -> list[tuple[float, list[float]]]:
        """(x, values over seeds) of each point of a line that has some."""
        found: dict[int, tuple[float, list[float]]] = {}
        for run in runs:
            labels = run.variation.labels
            if run.final.get(self.metric, 0.0) > 0:
                found.setdefault(labels["point"], (labels["x"], []))[1].append(run.final[self.metric])
        return sorted(found.values())

    def _draw(self, lines: Mapping[str, Any], fits: Mapping[str, Mapping[str, float]]) -> Any:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.5, 4.0), layout="constrained")
        axes = figure.subplots()
        for curve, points in lines.items():
            if not points:  # none of its figures is positive
                continue
            slope = f" ({fits[curve]['slope']:.3f})" if curve in fits else ""
            means = [math.fsum(found) / len(found) for _, found in points]
            axes.plot([x for x, _ in points], means, "o", alpha=0.7, label=f"{curve}{slope}")
            if curve in fits:
                ends = np.array([points[0][0], points[-1][0]])
                axes.plot(
                    ends, np.exp(line(points)[1]) * ends ** fits[curve]["slope"], color=axes.lines[-1].get_color()
                )
        axes.set(xlabel=" · ".join(self.x), ylabel=self.metric)
        if any(lines.values()):
            axes.set(xscale="log", yscale="log")
            axes.legend()
        axes.grid(alpha=0.3)
        return figure


def line(points: Sequence[tuple[float, Sequence[float]]]) -> tuple[float, float]:
    """(slope, intercept) of least squares through (log x, log mean)."""
    logs = np.log([[x, math.fsum(found) / len(found)] for x, found in points])
    slope, intercept = np.polyfit(logs[:, 0], logs[:, 1], 1)
    return float(slope), float(intercept)


def fitted(points: Sequence[tuple[float, Sequence[float]]], confidence: float) -> dict[str, float] | None:
    """Slope, share of explained variance, and the slope's interval; None for fewer than two different sizes."""
    if len({x for x, _ in points}) < 2:
        return None
    slope, intercept = line(points)
    logs = np.log([[x, math.fsum(found) / len(found)] for x, found in points])
    left = float(np.square(logs[:, 1] - slope * logs[:, 0] - intercept).sum())
    whole = float(np.square(logs[:, 1] - logs[:, 1].mean()).sum())
    found = {"slope": slope, "r2": 1 - left / whole if whole else 1.0}
    if min(len(values) for _, values in points) > 1:
        generator = numpy_generator(0, "rate_fit")
        drawn = [
            line([(x, generator.choice(values, len(values)).tolist()) for x, values in points])[0]
            for _ in range(RESAMPLES)
        ]
        low, high = np.quantile(drawn, [0.5 - confidence / 2, 0.5 + confidence / 2])
        found.update(slope_low=float(low), slope_high=float(high))
    return found


def _at(recipe: Mapping[str, Any], path: str) -> Any:
    value: Any = recipe
    for word in path.split("."):
        value = value.get(word) if isinstance(value, Mapping) else None
    return value
