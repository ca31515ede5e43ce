"""The values that the trials of a sweep get: drawn at random, as a grid, or by somebody's choice.

Whoever chooses answers two questions, which of so many entries and which number of a distribution; the walk over the
space asks only what the chosen branches need, so that a component's own distributions are conditional by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol

import numpy as np

from raycipe.framework.distributions import FINITE, FORMS, WHOLE
from raycipe.framework.streams import numpy_generator

STREAM = "sweep"


class Distribution(NamedTuple):
    """A distribution of numbers as the recipe writes it: `uniform` of (low, high), `normal` of (mean, sd), ..."""

    name: str
    numbers: tuple[float, ...]
    clip: tuple[float, float] | None = None

    @property
    def is_whole(self) -> bool:
        return self.name in WHOLE

    @property
    def is_log(self) -> bool:
        return "log" in self.name

    @property
    def step(self) -> float | None:
        return self.numbers[2] if self.name.startswith("q") else None

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest value; a normal one without `clip` has none."""
        if self.name == "normal":
            return self.clip or (-math.inf, math.inf)
        return self.numbers[0], self.numbers[1]

    def quantile(self, u: float) -> Any:
        """The value below which the share `u` in (0, 1) of the distribution lies. Each integer, and each step, takes
        an interval of its own around it, the two ends too."""
        if self.name == "normal":
            return self.clipped(NormalDist(*self.numbers).inv_cdf(u))
        low, high = self.ends
        if self.step is not None:
            return self._stepped(u)
        if self.is_whole:
            return self.clipped(math.floor(_between(low - 0.5, high + 0.5, u, self.is_log) + 0.5))
        return self.clipped(_between(low, high, u, self.is_log))

    def _stepped(self, u: float) -> Any:
        low, high, step = self.numbers
        last = math.floor((high - low) / step + 1e-9)
        if not self.is_log:
            return self.on_step(min(last, math.floor(u * (last + 1))))
        return self.on_step(round((_between(low, high, u, True) - low) / step))

    def on_step(self, index: int) -> Any:
        """low + index · step, at most the last step that is not above high."""
        low, high, step = self.numbers
        index = max(0, min(index, math.floor((high - low) / step + 1e-9)))
        value = low + index * step
        return int(value) if self.is_whole else float(f"{value:.15g}")  # 0.1 + 2 · 0.1 is 0.3

    def clipped(self, value: float) -> Any:
        low, high = self.ends
        value = min(max(value, low), high)
        return int(value) if self.is_whole else float(value)


def _between(low: float, high: float, u: float, log: bool) -> float:
    return math.exp(math.log(low) + u * (math.log(high) - math.log(low))) if log else low + u * (high - low)


def distribution_of(form: Any) -> Distribution | None:
    """The distribution of numbers that a written value is, if it is one."""
    if not isinstance(form, Mapping):
        return None
    names = [key for key in form if key in FORMS and key not in FINITE]
    if len(names) != 1 or not set(form) <= {names[0], "clip"}:
        return None
    clip = form.get("clip")
    return Distribution(names[0], tuple(form[names[0]]), (clip[0], clip[1]) if clip else None)


def entries_of(form: Any, top: bool = False) -> list[Any] | None:
    """The entries of a choice or a grid; a bare list is one where a path's values stand."""
    if top and isinstance(form, list):
        return form
    if isinstance(form, Mapping) and len(form) == 1 and next(iter(form)) in FINITE:
        return list(next(iter(form.values())))
    return None


class Chooser(Protocol):
    """Who decides the values of a trial. `name` tells the question apart from all others of the space."""

    def index(self, name: str, count: int) -> int: ...
    def number(self, name: str, distribution: Distribution) -> Any: ...


def choose(space: Mapping[str, Any], chooser: Chooser) -> dict[str, Any]:
    """The values of one trial: dotted path -> plain value."""
    return {path: _value(form, path, chooser, top=True) for path, form in space.items()}


def _value(form: Any, name: str, chooser: Chooser, top: bool = False) -> Any:
    entries = entries_of(form, top)
    if entries is not None:
        index = chooser.index(name, len(entries))
        return _value(entries[index], f"{name}[{index}]", chooser)
    distribution = distribution_of(form)
    if distribution is not None:
        return chooser.number(name, distribution)
    if isinstance(form, Mapping):
        return {key: _value(child, f"{name}.{key}", chooser) for key, child in form.items()}
    return form


class Random:
    """Draws from a generator."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def index(self, name: str, count: int) -> int:
        return int(self.generator.integers(count))

    def number(self, name: str, distribution: Distribution) -> Any:
        # 0 and 1 themselves have no quantile of a normal distribution
        return distribution.quantile(min(max(self.generator.random(), 1e-12), 1 - 1e-12))


class Cell(Random):
    """One combination of a grid; distributions inside its components are drawn."""

    def __init__(self, generator: np.random.Generator, indices: Mapping[str, int]) -> None:
        super().__init__(generator)
        self.indices = indices

    def index(self, name: str, count: int) -> int:
        return self.indices[name] if name in self.indices else super().index(name, count)


def is_grid(sweep: Mapping[str, Any]) -> bool:
    return sweep["search"] == "grid" or any(isinstance(f, Mapping) and "grid" in f for f in sweep["space"].values())


def count_of(sweep: Mapping[str, Any]) -> int:
    """The number of trials."""
    if is_grid(sweep):
        return math.prod(len(entries_of(form, top=True) or ()) for form in sweep["space"].values())
    return int(sweep["trials"])


def drawn(sweep: Mapping[str, Any], seed: int, number: int) -> dict[str, Any]:
    """The values of the trial `number` (from 1) of a random search or a grid: they depend on nothing else."""
    generator = numpy_generator(seed, STREAM, number)
    if not is_grid(sweep):
        return choose(sweep["space"], Random(generator))
    rest, indices = number - 1, {}
    for path, form in reversed(sweep["space"].items()):  # the last path varies fastest
        rest, indices[path] = divmod(rest, len(entries_of(form, top=True) or ()))
    return choose(sweep["space"], Cell(generator, indices))
