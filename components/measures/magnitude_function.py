"""The effective number of points at every scale."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from raycipe.components.measures._magnitude import TOLERANCE, Metric, median_distance, scale_of, weighting
from raycipe.components.measures.magnitude import space_of
from raycipe.framework.arguments import Length, Positive, Range, Seed, Width
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register

CONVERGED = 0.95  # share of the points at which the automatic scales end


@register
class MagnitudeFunction(Measure):
    """Magnitude of the points that a layer makes of the examples, as a function of the scale t.

    `dimension` is the slope d log Mag(t) / d log t over the middle half of the scales (in log t), `area` the mean of
    Mag(t) / n over log t. Automatic scales go from 0.01 / median distance to where the magnitude is 95 % of n.

    Args:
        layer: logits, penultimate (what the last linear module is given), input, or a module's dotted path
        split: whose examples
        scales: the values of t, ascending (null: chosen from the distances)
        num_scales: how many are chosen, evenly in log t
        metric: distance between points
        max_points: at most so many examples, drawn with each class's share kept
        seed: draws them

    Reference:
        K. Limbeck, R. Andreeva, R. Sarkar, B. Rieck, Metric Space Magnitude for Evaluating the Diversity of Latent
        Representations, NeurIPS 2024.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
        measures: [{type: magnitude_function, max_points: 100, num_scales: 6}]
    """

    reports: ClassVar[tuple[str, ...]] = ("dimension", "area", "points", "merged")

    def __init__(
        self,
        layer: str = "logits",
        split: Literal["train", "val", "test"] = "train",
        scales: Annotated[list[Positive], Length(4, 1000)] | None = None,
        num_scales: Annotated[int, Range(ge=4, le=1000)] = 20,
        metric: Metric = "euclidean",
        max_points: Width = 2000,
        seed: Seed = 0,
    ) -> None:
        if scales is not None and sorted(set(scales)) != list(scales):
            raise ValueError("scales: must grow")
        self.layer = layer
        self.split = split
        self.scales = scales
        self.num_scales = num_scales
        self.metric: Metric = metric
        self.max_points = max_points
        self.seed = seed

    def measure(self, trained: Trained) -> Measured:
        space = space_of(trained, self.split, self.layer, self.metric, self.max_points, self.seed)
        scales = self.scales or automatic_scales(space.between, self.num_scales)
        curve = magnitudes(space.between, scales)
        values = {**summary(scales, curve, len(space.between)), "merged": float(space.dropped)}
        rows = [{"scale": t, "magnitude": value} for t, value in zip(scales, curve, strict=True)]
        return Measured(values=values, tables={"curve": rows}, figures={"curve": lambda: _draw(rows)})


def automatic_scales(between: Tensor, count: int) -> list[float]:
    low, high = 0.01 / float(median_distance(between)), scale_of(between, "convergence", CONVERGED)
    return np.geomspace(low, high, count).tolist()


def magnitudes(between: Tensor, scales: list[float]) -> list[float]:
    """Mag(t) at each scale. Raises Skipped where the weights do not solve their equation."""
    found = [weighting(between, t) for t in scales]
    for t, each in zip(scales, found, strict=True):
        if each.residual > TOLERANCE:
            raise Skipped(f"at scale {t:.3g} the weights solve their equation to {each.residual:.1e} only")
    return [each.magnitude for each in found]


def summary(scales: list[float], curve: list[float], points: int) -> dict[str, float]:
    x, y = np.log(scales), np.log(curve)
    middle = (x >= x[0] + (x[-1] - x[0]) / 4 - 1e-12) & (x <= x[-1] - (x[-1] - x[0]) / 4 + 1e-12)
    if middle.sum() < 2:
        middle[:] = True
    area = float(np.trapezoid(np.array(curve) / points, x) / (x[-1] - x[0]))
    slope = float(np.polyfit(x[middle], y[middle], 1)[0])
    return {"dimension": slope if math.isfinite(slope) else 0.0, "area": area, "points": float(points)}


def _draw(rows: list[dict[str, Any]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.loglog([row["scale"] for row in rows], [row["magnitude"] for row in rows], marker=".")
    axes.set(xlabel="scale t", ylabel="magnitude")
    return figure
