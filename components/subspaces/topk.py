"""The parameters with the highest score."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor

from raycipe.components.subspaces._choice import (
    SUBSPACE,
    Blocks,
    Granularity,
    best,
    blocks_of,
    budget,
    eligible,
    shares,
)
from raycipe.framework.arguments import Count, Fraction, Range, Share
from raycipe.framework.contracts import Landscape, Subspace
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator

Score = Literal[
    "gate", "soft", "gradient", "curvature", "newton", "pilot", "caps", "ratio",
    "output", "output_gradient", "random", "lowest_gradient",
]  # fmt: skip
RIDGE = 1e-6  # of caps and newton
DEAD = 1e-12  # mean curvature of a block that caps leaves out
PILOT_STEPS, PILOT_DAMPING = 40, 0.01
OF_UNITS = ("output", "output_gradient")


@register
class Topk(Subspace):
    """A share of the parameters, those with the highest score.

    With v the direction that the edit wants to take and c the diagonal of the curvature of the examples that stay:
    gate |v| where c is at least its q-quantile over c > 0, else not; soft |v| c/(c + median c); gradient |v|; curvature
    c; newton |v|/c, which prefers low curvature and is here to be compared with; pilot |x|, x a short damped solution
    with all parameters; caps v²/c, the predicted gain; ratio c of what goes over c of what stays; output and
    output_gradient the mean |activation| of a unit, or that of its gradient, on what goes; random; lowest_gradient.

    Args:
        score: by what parameters are ranked
        ratio: share of the parameters that are chosen
        count: how many are, instead of `ratio`
        granularity: single parameters, units (an output neuron or channel with its bias), or whole tensors; units and
            tensors are ranked by the root mean square of their members, caps by the mean
        allocation: the best of the whole model, or the same share of each layer
        q: of gate; a larger one leaves out more low curvature and more of v
        curvature: how c is estimated: mean squared gradients, the same with labels drawn by the model, or products
            with random signs
        include: patterns of parameter names to choose from
        exclude: patterns of parameter names to leave out
        seed: of `score: random`; null takes the recipe's seed

    Reference:
        H. Lyu, J. Jang, S. Ryu, H. J. Yang, Deeper Understanding of Black-box Predictions via Generalized Influence
        Functions, 2023.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor:
          type: gif
          forget: {type: one_class, label: 3}
          subspace: {type: topk, score: gate, ratio: 0.1}
    """

    at_most_one = (("ratio", "count"),)

    def __init__(
        self,
        score: Score = "gate",
        ratio: Share = 0.1,
        count: Count | None = None,
        granularity: Granularity = "element",
        allocation: Literal["global", "per_layer"] = "global",
        q: Fraction = 0.5,
        curvature: Literal["fisher", "ggn", "hutchinson"] = "fisher",
        include: list[str] = ["*"],  # noqa: B006 (never changed)
        exclude: list[str] = [],  # noqa: B006 (never changed)
        seed: Annotated[int, Range(ge=0, le=2**32 - 1)] | None = None,
    ) -> None:
        if score in OF_UNITS and granularity == "element":
            raise ValueError(f"granularity: score {score} ranks units, so take granularity: unit")
        if score == "caps":
            allocation = "per_layer"
        self.score: Score = score
        self.ratio = ratio
        self.count = count
        self.granularity: Granularity = granularity
        self.allocation = allocation
        self.q = q
        self.curvature = curvature
        self.include = include
        self.exclude = exclude
        self.seed = seed

    def select(self, landscape: Landscape) -> Tensor:
        may = eligible(landscape.layout, self.include, self.exclude)
        blocks = blocks_of(landscape.layout, self.granularity)
        score = self._ranked(landscape, blocks)
        score = torch.where(blocks.mean(may.double()) == 1, score.cpu().double(), -torch.inf)
        most = budget(self.ratio, self.count, int(may.sum()))
        if self.allocation == "global":
            return best(score, blocks, most)
        return self._per_layer(score, blocks, may, most)

    def _ranked(self, landscape: Landscape, blocks: Blocks) -> Tensor:
        """(blocks,)."""
        if self.score in OF_UNITS:
            return _of_units(landscape, blocks, self.score == "output_gradient")
        if self.score == "random":
            generator = torch_generator(landscape.seed if self.seed is None else self.seed, "subspace")
            return torch.rand(len(blocks.sizes), generator=generator, dtype=torch.float64)
        v, c = landscape.gradient, torch.zeros(0)
        if self.score not in ("gradient", "lowest_gradient", "pilot"):
            c = landscape.curvature(self.curvature)
        if self.score == "caps" and self.granularity != "element":
            mean = blocks.mean(v.double().square() / (c + RIDGE))
            return torch.where(blocks.mean(c) >= DEAD, mean, -torch.inf)
        if self.score == "pilot":
            each = landscape.pilot(PILOT_STEPS, PILOT_DAMPING).abs()
        elif self.score == "ratio":
            each = landscape.curvature(self.curvature, of_forget=True) / (c + RIDGE)
        else:
            each = scores(self.score, v, c, self.q)
        if self.granularity == "element":
            return each
        finite = torch.where(each.isfinite(), each, 0.0)
        return blocks.mean(finite.square()).sqrt()

    def _per_layer(self, score: Tensor, blocks: Blocks, may: Tensor, most: int) -> Tensor:
        layers = blocks.layer[blocks.of]
        numbers = torch.unique(layers[may]).tolist()
        sizes = [int((may & (layers == number)).sum()) for number in numbers]
        found = []
        for number, part in zip(numbers, shares(sizes, most), strict=True):
            own = torch.where(blocks.layer == number, score, -torch.inf)
            usable = int((own[blocks.of] > -torch.inf).sum())
            if min(part, usable) and (self.granularity == "element" or _fits(own, blocks, part)):
                found.append(best(own, blocks, min(part, usable) if self.granularity == "element" else part))
        if not found:
            message = f"no layer has a unit or tensor that fits into its share of {most} parameters"
            raise RunError("recipe", message, "a larger `ratio`, or allocation: global", SUBSPACE)
        return torch.unique(torch.cat(found))


def _fits(score: Tensor, blocks: Blocks, most: int) -> bool:
    return bool(((score > -torch.inf) & (blocks.sizes <= most)).any())


def scores(name: str, v: Tensor, c: Tensor, q: float) -> Tensor:
    """The score of each parameter, (p,), from the direction v and the curvature c."""
    size = v.double().abs()
    if name == "gradient":
        return size
    if name == "lowest_gradient":
        return -size
    if name == "curvature":
        return c
    if name == "newton":
        return size / (c + RIDGE)
    positive = c[c > 0]
    if name == "caps":
        return torch.where(c > 0, size.square() / (c + RIDGE), -torch.inf)
    if not len(positive):
        return size
    if name == "soft":
        return size * c / (c + positive.median())
    return torch.where((c >= quantile(positive, q)) & (c > 0), size, -torch.inf)  # gate


def quantile(values: Tensor, q: float) -> Tensor:
    """Linear between order statistics; torch's own refuses more than 16 million values."""
    ordered = values.double().sort().values
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _of_units(landscape: Landscape, blocks: Blocks, of_gradient: bool) -> Tensor:
    """The activity of each unit; units of layers that show none come last."""
    activity = landscape.activity(of_gradient)
    found = torch.full((len(blocks.sizes),), -torch.inf, dtype=torch.float64)
    start = 0
    for name, shape in landscape.layout:
        own = activity.get(name.rpartition(".")[0])
        numbers = torch.unique(blocks.of[start : start + shape.numel()])
        start += shape.numel()
        if own is not None and len(own) == len(numbers):
            found[numbers] = own.cpu().double()
    return found
