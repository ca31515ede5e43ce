"""At which label masses a booster asks its learner: at one, at each of a list, or at those that a search finds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from raycipe.framework.contracts import Hypothesis

LEAST_EDGE = 1e-6


@dataclass(frozen=True)
class Query:
    """What the learner gave at label mass p: the hypothesis, its values (m,) on the examples, tpr and fpr."""

    p: float
    tpr: float
    fpr: float
    hypothesis: Hypothesis
    values: np.ndarray

    @property
    def edge(self) -> float:
        return abs(self.tpr - self.fpr)

    @property
    def is_flipped(self) -> bool:
        return self.tpr < self.fpr


Ask = Callable[[float], Query]


class Search(Protocol):
    def choose(self, ask: Ask) -> Query | None:
        """The query to step with in this round, or None if none has an edge."""


class Among:
    """Every mass of a list is asked at in each round; the largest edge counts."""

    def __init__(self, masses: Sequence[float]) -> None:
        self.masses = masses

    def choose(self, ask: Ask) -> Query | None:
        return max(map(ask, self.masses), key=lambda query: query.edge)


class Adaptive:
    """Neither the promise nor its gap is known: masses are tried on finer and finer grids.

    Phase j believes in a gap of 2^-j. Its grid has logits in [-L, L], L = 2 + j ln 2, at steps of 2^-j / 4, which keeps
    half the gap, since F_p is 2-Lipschitz in logit p where |F| <= 1. The active mass is asked at as long as its edge is
    at least half the gap; then the grid is gone through (middle first, halves next), at most `max_queries` a round, for
    one that gives such an edge. If none does, the round takes the best that was seen, and the next phase begins.
    """

    def __init__(self, max_queries: int = 64) -> None:
        self.max_queries = max_queries
        self.phase, self.active = 1, 0.5
        self._left: list[float] = []  # masses of this phase's scan that are still to be tried; last comes first
        self._is_scanning = False

    @property
    def wanted(self) -> float:
        return 2.0**-self.phase / 2

    def choose(self, ask: Ask) -> Query | None:
        best: Query | None = None
        if not self._is_scanning:
            best = ask(self.active)
            if best.edge >= self.wanted:
                return best
            self._left, self._is_scanning = grid(self.phase)[::-1], True
        for _ in range(self.max_queries):
            if not self._left:
                self.phase, self._is_scanning = self.phase + 1, False
                break
            query = ask(self._left.pop())
            if best is None or query.edge > best.edge:
                best = query
            if query.edge >= self.wanted:
                self.active, self._is_scanning = query.p, False
                return query
        if best is not None and best.edge > LEAST_EDGE:
            if not self._is_scanning:
                self.active = best.p
            return best
        return None


def grid(phase: int) -> list[float]:
    """The label masses of a phase: the middle first, then by halves (bit reversal)."""
    step, reach = 2.0**-phase / 4, 2 + phase * math.log(2)
    count = math.ceil(reach / step)
    logits = step * np.arange(-count, count + 1)
    return [float(p) for p in 1 / (1 + np.exp(-logits[by_halves(len(logits))]))]


def by_halves(count: int) -> list[int]:
    """0 .. count - 1: the middle, then the middles of both halves, and so on."""
    found, level = [], [(0, count)]
    while level:
        following = []
        for low, high in level:
            if low < high:
                middle = (low + high) // 2
                found.append(middle)
                following += [(low, middle), (middle + 1, high)]
        level = following
    return found
