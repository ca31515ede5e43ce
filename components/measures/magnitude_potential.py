"""How well the examples of an example's class represent it, beside all examples."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from raycipe.components.measures._activations import Layer, flipped_auc, layer_of, stratified
from raycipe.components.measures._magnitude import (
    TOLERANCE,
    Metric,
    Rule,
    distances,
    left_out,
    merged,
    potential,
    scale_of,
    weighting,
)
from raycipe.components.measures.magnitude import check_scale
from raycipe.framework.arguments import Count, Length, Positive, Range, Seed
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator

SPLITS = ("train", "val", "test")
WORDS = ("ratio", "median", "q10", "margin", "undefined")


class Represents(NamedTuple):
    """A set of points that represents others: `members` are their places in the space, `kept` the different ones.

    `alone` is each member's potential with respect to the others: 1 for one whose place another shares.
    """

    members: Tensor
    kept: Tensor
    weights: Tensor
    alone: Tensor
    residual: float


class Potentials(NamedTuple):
    """Of m points: potential of their class, of all points, and the largest one of another class; NaN: undefined."""

    of_class: Tensor
    of_all: Tensor
    of_other: Tensor

    @property
    def ratio(self) -> Tensor:
        return self.of_class / self.of_all

    @property
    def margin(self) -> Tensor:
        return (self.of_class - self.of_other) / self.of_all


@register
class MagnitudePotential(Measure):
    """Ratio of magnitude potentials: how well its class represents an example, beside all training examples.

    A set A has weights w with sum_j w_j exp(-t d(a_i, a_j)) = 1 and the potential h_A(x) = sum_i w_i exp(-t d(x, a_i)),
    which is 1 on A and falls to 0 far away. Of an example x of class c, with A_c the training examples of c,

    ratio(x) = h_{A_c}(x) / h_A(x), margin(x) = (h_{A_c}(x) - max_{k != c} h_{A_k}(x)) / h_A(x).

    A training example is left out of the sets that it is judged by, h = 1 - w_i / (Z^-1)_ii (1 where another stands at
    its place); otherwise its ratio would be 1 whatever the network. `<split>_ratio`, `_median` and `_q10` (the lowest
    tenth) are over the examples of a split, `_undefined` counts those whose class has fewer than `min_class` others.
    Weights may be negative, so a ratio may lie a little outside [0, 1]; it is not clipped. The scale is refitted to
    each model: the measure sees shape, not growth. `flipped_auc`, where the data tell which labels were exchanged
    (data/noisy_labels), is how well a low ratio tells these examples.

    Args:
        layer: logits, penultimate (what the last linear module is given), input, or a module's dotted path
        queries: the splits whose examples are judged; those that the data lacks are left out
        scale: how t is chosen: factor / median distance, factor / mean distance of nearest neighbours, the t at which
            the magnitude is the share `factor` of the points (convergence), or factor itself (fixed)
        factor: see scale; larger values see finer differences
        class_of: an example's class: its label, or the network's prediction (which needs no labels)
        min_class: least number of others of its class that make an example's ratio defined
        metric: distance between points
        max_reference: at most so many training examples represent, drawn with each class's share kept
        seed: draws them

    Reference:
        Torkamani, Gouk, Sarkar, Generalization in Neural Networks Through the Lens of Magnitude Potential, 2026.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
        measures: [{type: magnitude_potential, max_reference: 200}]
    """

    reports: ClassVar[tuple[str, ...]] = (
        *(f"{split}_{word}" for split in SPLITS for word in WORDS),
        *("scale", "reference", "merged", "residual", "flipped_auc"),
    )

    def __init__(
        self,
        layer: str = "logits",
        queries: Annotated[list[Literal["train", "val", "test"]], Length(1, 3)] = ["train", "test"],  # noqa: B006
        scale: Rule = "median",
        factor: Positive = 10.0,
        class_of: Literal["label", "prediction"] = "label",
        min_class: Count = 2,
        metric: Metric = "euclidean",
        max_reference: Annotated[int, Range(ge=2, le=20000)] = 4000,
        seed: Seed = 0,
    ) -> None:
        check_scale(scale, factor)
        self.layer = layer
        self.queries = queries
        self.scale: Rule = scale
        self.factor = factor
        self.class_of = class_of
        self.min_class = min_class
        self.metric: Metric = metric
        self.max_reference = max_reference
        self.seed = seed

    def measure(self, trained: Trained) -> Measured:
        train = layer_of(trained, "train", self.layer)
        chosen = stratified(train.labels, self.max_reference, torch_generator(self.seed, "magnitude"))
        chosen = chosen.to(train.values.device)
        points, labels = train.values[chosen], self._labels(train)[chosen]
        if len(points) < 2 or len(torch.unique(labels)) < 2:
            raise Skipped("the ratio needs training examples of at least two classes")
        between = distances(points, points, self.metric)
        t = scale_of(between, self.scale, self.factor)
        space = Space(between, labels, t, self.min_class)
        values = {
            "scale": t,
            "reference": float(len(points)),
            "merged": float(len(points) - len(space.whole.kept)),
            "residual": space.residual,
        }
        rows: list[dict[str, Any]] = []
        for split in self.queries:
            if split not in trained.splits:
                continue
            asked = layer_of(trained, split, self.layer)
            own = self._labels(asked)
            found = torch.full((3, len(own)), math.nan, dtype=torch.float64, device=own.device)
            outside = torch.ones_like(own, dtype=torch.bool)
            if split == "train":
                outside[chosen] = False
                found[:, chosen] = torch.stack(space.among())
            if outside.any():
                to_points = distances(asked.values[outside], points, self.metric)
                found[:, outside] = torch.stack(space.beside(to_points, own[outside]))
            potentials = Potentials(*found)
            values.update({f"{split}_{word}": value for word, value in summary(potentials, split).items()})
            rows += _rows(split, asked, own, potentials)
            told = flipped_auc(trained, asked.ids, -potentials.ratio) if split == "train" else None
            if told is not None:
                values["flipped_auc"] = told
        if not rows:
            raise Skipped(f"the data has none of the splits {', '.join(self.queries)}")
        return Measured(values=values, tables={"examples": rows}, figures={"ratios": lambda: _draw(rows)})

    def _labels(self, layer: Layer) -> Tensor:
        return layer.labels if self.class_of == "label" else layer.predicted


class Space:
    """Points with classes and distances, of which the sets that represent are made once: all, and each class."""

    def __init__(self, between: Tensor, labels: Tensor, t: float, min_class: int) -> None:
        self.labels, self.t, self.min_class = labels, t, min_class
        self.whole = represents(between, torch.arange(len(labels), device=labels.device), t)
        members = {int(label): (labels == label).nonzero()[:, 0] for label in torch.unique(labels)}
        self.classes = {label: represents(between, there, t) for label, there in members.items()}
        self.between = between

    @property
    def residual(self) -> float:
        return max(each.residual for each in (self.whole, *self.classes.values()))

    def among(self) -> Potentials:
        """The potentials of the space's own points, each left out of the sets that it is judged by."""
        of_class, of_other = _unknown(self.labels)
        for found in self.classes.values():
            if len(found.members) > self.min_class:  # as many others
                of_class[found.members] = found.alone
            rest = torch.ones_like(self.labels, dtype=torch.bool)
            rest[found.members] = False
            here = potential(self.between[rest][:, found.kept], self.t, found.weights)
            of_other[rest] = torch.maximum(of_other[rest], here)
        return Potentials(of_class, self.whole.alone, of_other)

    def beside(self, to_points: Tensor, own: Tensor) -> Potentials:
        """The potentials of other points, given by their distances (m, n) to the space's, with their own classes."""
        of_class, of_other = _unknown(own)
        for label, found in self.classes.items():
            here, mine = potential(to_points[:, found.kept], self.t, found.weights), own == label
            if len(found.members) >= self.min_class:
                of_class[mine] = here[mine]
            of_other[~mine] = torch.maximum(of_other[~mine], here[~mine])
        return Potentials(of_class, potential(to_points[:, self.whole.kept], self.t, self.whole.weights), of_other)


def represents(between: Tensor, members: Tensor, t: float) -> Represents:
    """The weights of some of the points. Raises Skipped if they do not solve their equation."""
    inner = between[members][:, members]
    first = merged(inner) if len(members) > 1 else torch.zeros_like(members)
    kept, copies = torch.unique(first, return_counts=True)
    found = weighting(inner[kept][:, kept], t, with_inverse=True)
    if found.residual > TOLERANCE:
        raise Skipped(f"the weights solve their equation to {found.residual:.1e} only: choose a larger factor")
    alone = torch.where(copies > 1, 1.0, left_out(found))
    return Represents(members, members[kept], found.weights, alone[torch.searchsorted(kept, first)], found.residual)


def _unknown(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Of the own class nothing is known yet, of other classes the largest potential of none."""
    shape = labels.shape
    unknown = torch.full(shape, math.nan, dtype=torch.float64, device=labels.device)
    return unknown, torch.full_like(unknown, -math.inf)


def summary(found: Potentials, split: str) -> dict[str, float]:
    """Aggregates over the defined examples. Raises Skipped if they are the smaller part."""
    ratio, margin = found.ratio, found.margin
    known = torch.isfinite(ratio) & torch.isfinite(margin)
    if 2 * int(known.sum()) < len(ratio) or not known.any():
        raise Skipped(f"the ratio of {int((~known).sum())} of {len(ratio)} examples of `{split}` is undefined")
    ratio, margin = ratio[known], margin[known]
    return {
        "ratio": float(ratio.mean()),
        "median": float(ratio.median()),
        "q10": float(ratio.quantile(0.1)),
        "margin": float(margin.mean()),
        "undefined": float((~known).sum()),
    }


def _rows(split: str, layer: Layer, own: Tensor, found: Potentials) -> list[dict[str, Any]]:
    columns = [layer.ids, own, layer.labels, found.of_class, found.of_all, found.of_other, found.ratio, found.margin]
    names = ("id", "class", "label", "h_class", "h_all", "h_best_other", "ratio", "margin")
    lists = [column.cpu().tolist() for column in columns]
    return [{"split": split, **dict(zip(names, row, strict=True))} for row in zip(*lists, strict=True)]


def _draw(rows: list[dict[str, Any]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.5), layout="constrained")
    axes = figure.subplots()
    bins = [edge / 40 for edge in range(-4, 49)]
    for split in dict.fromkeys(row["split"] for row in rows):
        ratios = [row["ratio"] for row in rows if row["split"] == split and math.isfinite(row["ratio"])]
        axes.hist(ratios, bins=bins, density=True, alpha=0.5, label=split)
    axes.set(xlabel="ratio of potentials, class / all", ylabel="density of examples")
    axes.legend()
    return figure
