"""The effective number of points in a layer's outputs."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from raycipe.components.measures._activations import layer_of, stratified
from raycipe.components.measures._magnitude import TOLERANCE, Metric, Rule, distances, merged, scale_of, weighting
from raycipe.framework.arguments import Positive, Seed, Width
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator


@register
class Magnitude(Measure):
    """Magnitude of the points that a layer makes of the examples: their effective number at a scale t.

    Z_ij = exp(-t d(a_i, a_j)), Z w = 1, magnitude = sum_i w_i. It grows from 1 (all points look like one) to their
    number (all are far apart) as t grows. Points at one place count once.

    Args:
        layer: logits, penultimate (what the last linear module is given), input, or a module's dotted path
        split: whose examples
        scale: how t is chosen: factor / median distance, factor / mean distance of nearest neighbours, the t at which
            the magnitude is the share `factor` of the points (convergence), or factor itself (fixed)
        factor: see scale; larger values see finer differences
        metric: distance between points
        max_points: at most so many examples, drawn with each class's share kept
        seed: draws them

    Reference:
        T. Leinster, The Magnitude of Metric Spaces, Documenta Mathematica, 2013; R. Andreeva, K. Limbeck, B. Rieck,
        R. Sarkar, Metric Space Magnitude and Generalisation in Neural Networks, 2023.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
        measures: [{type: magnitude, max_points: 200}]
    """

    reports: ClassVar[tuple[str, ...]] = ("magnitude", "scale", "points", "merged", "smallest_weight", "residual")

    def __init__(
        self,
        layer: str = "logits",
        split: Literal["train", "val", "test"] = "train",
        scale: Rule = "median",
        factor: Positive = 10.0,
        metric: Metric = "euclidean",
        max_points: Width = 2000,
        seed: Seed = 0,
    ) -> None:
        check_scale(scale, factor)
        self.layer = layer
        self.split = split
        self.scale: Rule = scale
        self.factor = factor
        self.metric: Metric = metric
        self.max_points = max_points
        self.seed = seed

    def measure(self, trained: Trained) -> Measured:
        space = space_of(trained, self.split, self.layer, self.metric, self.max_points, self.seed)
        t = scale_of(space.between, self.scale, self.factor)
        found = weighting(space.between, t)
        if found.residual > TOLERANCE:
            raise Skipped(f"the weights solve their equation to {found.residual:.1e} only: choose a larger factor")
        values = {
            "magnitude": found.magnitude,
            "scale": t,
            "points": float(len(space.between)),
            "merged": float(space.dropped),
            "smallest_weight": float(found.weights.min()),
            "residual": found.residual,
        }
        rows: list[dict[str, Any]] = [
            {"id": int(number), "weight": float(weight)}
            for number, weight in zip(space.ids, found.weights, strict=True)
        ]
        return Measured(values=values, tables={"weights": rows})


class Space(NamedTuple):
    """Different points of a layer: their distances (n, n), their ids, and how many fell on another point."""

    between: Tensor
    ids: Tensor
    dropped: int


def space_of(trained: Trained, split: str, layer: str, metric: Metric, most: int, seed: int) -> Space:
    """The points of a layer over (at most so many examples of) a split. Raises Skipped for fewer than two."""
    found = layer_of(trained, split, layer)
    chosen = stratified(found.labels, most, torch_generator(seed, "magnitude")).to(found.values.device)
    points = found.values[chosen]
    if len(points) < 2:
        raise Skipped(f"the `{split}` split has {len(points)} example: a space needs two points")
    between = distances(points, points, metric)
    first = merged(between)
    kept = (first == torch.arange(len(first), device=first.device)).nonzero()[:, 0]
    if len(kept) < 2:
        raise Skipped(f"the layer `{layer}` is the same for all examples")
    return Space(between[kept][:, kept], found.ids[chosen][kept], len(first) - len(kept))


def check_scale(scale: str, factor: float) -> None:
    """Raise ValueError for a share that no magnitude can have."""
    if scale == "convergence" and factor >= 1:
        raise ValueError(f"factor: with scale convergence it is a share of the points below 1, not {factor}")
