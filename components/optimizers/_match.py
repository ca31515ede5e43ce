"""The strength at which compressors are compared: by their closed-form contraction factor, or by the one seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypedDict

import torch
from torch import Tensor

from raycipe.components.optimizers._fragments import Fragment
from raycipe.framework.arguments import Count, Default, Share
from raycipe.framework.contracts import Compressor, Draw
from raycipe.framework.registry import build, get

WEAKEST = 1e-4  # closed-form factor
HALVINGS = 14  # of the search's interval, in the logarithm: to 0.06 %
DRAWS = 3  # whose mean is a random compressor's factor on one message


class _Match(TypedDict):
    alpha: Share


class Match(_Match, total=False):
    """The strength at which compressors are compared.

    Args:
        alpha: contraction factor, on the largest fragment
        mode: in closed form, which is the worst case in one block or chunk; or as measured on what is really sent
        steps: exchanges over which `measured` looks for the strength; it keeps their mean
    """

    mode: Annotated[Literal["worst", "measured"], Default("worst")]
    steps: Annotated[Count, Default(200)]


def at_strength(compressor: Compressor, strength: float, numel: int) -> Compressor:
    """The compressor with this closed-form factor on `numel` entries; sent now and then where it has none to set."""
    try:
        section = compressor.match(strength, numel)
    except ValueError:
        lazy: Any = get("compressors", "lazy")
        sent_now_and_then: Compressor = lazy(compressor, strength)
        return sent_now_and_then
    found: Compressor = build(section, "compressors", "match")
    return found


def matched(compressor: Compressor, match: Match | None, fragments: Sequence[Fragment]) -> Compressor:
    """The compressor, changed to have the contraction factor that `match` asks for; a first guess if it's measured."""
    if match is None:
        return compressor
    numel = max(fragment.numel for fragment in fragments)
    if match.get("mode") == "measured":
        return at_strength(compressor, match["alpha"], numel)
    try:
        section = compressor.match(match["alpha"], numel)
    except ValueError as error:
        raise ValueError(f"{error}; `mode: measured` finds one") from error
    found: Compressor = build(section, "compressors", "match")
    return found


class Matching:
    """Finds the strength at which the measured factor is `alpha`, message by message; keeps the mean of them all."""

    def __init__(self, compressor: Compressor, match: Match, fragments: Sequence[Fragment]) -> None:
        self.compressor, self.alpha, self.steps = compressor, match["alpha"], match.get("steps", 200)
        sizes = [fragment.numel for fragment in fragments]
        self.index = sizes.index(max(sizes))
        self.numel, self.shapes = sizes[self.index], fragments[self.index].shapes
        self.count, self.total = 0, 0.0  # of logarithms

    @property
    def is_found(self) -> bool:
        return self.count >= self.steps

    @property
    def strength(self) -> float:
        """The mean so far, in the logarithm."""
        return math.exp(self.total / self.count) if self.count else self.alpha

    def fit(self, message: Tensor, draw: Draw) -> float:
        """The logarithm of the strength whose factor on this message is `alpha`."""

        def factor(logarithm: float) -> float:
            return measured(at_strength(self.compressor, math.exp(logarithm), self.numel), message, draw, self.shapes)

        return crossing(factor, self.alpha)

    def add(self, logarithm: float) -> Compressor:
        """Take in the workers' mean for one message; gives what this message is compressed with."""
        self.count, self.total = self.count + 1, self.total + logarithm
        return at_strength(self.compressor, self.strength if self.is_found else math.exp(logarithm), self.numel)

    def state(self) -> dict[str, Any]:
        return {"count": self.count, "total": self.total}

    def load(self, state: dict[str, Any]) -> Compressor:
        self.count, self.total = state["count"], state["total"]
        return at_strength(self.compressor, self.strength, self.numel)


def match_stats(matching: Matching | None) -> dict[str, Tensor | float]:
    """The closed-form factor that has been found so far."""
    return {"comm/strength": matching.strength} if matching else {}


def crossing(factor: Callable[[float], float], target: float) -> float:
    """Where a growing function of the logarithm of a strength reaches `target`; an end of the range if it does not."""
    low, high = math.log(WEAKEST), 0.0
    if factor(high) <= target:
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if factor(middle) < target else (low, middle)
    return (low + high) / 2


def measured(compressor: Compressor, message: Tensor, draw: Draw, shapes: Sequence[Sequence[int]]) -> float:
    """The expected factor on one message: of a lazy one its share times the inner one's, else the mean of draws."""
    inner = getattr(compressor, "inner", None)
    if inner is not None:
        return float(compressor.p) * measured(inner, message, draw, shapes)  # type: ignore[attr-defined]
    draws = [Draw(draw.seed + number, draw.rank, draw.step, draw.fragment) for number in range(DRAWS)]
    with torch.no_grad():
        return sum(compressor.alpha_of(message, one, shapes) for one in draws) / DRAWS
