"""The worst learner that still keeps a promise."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.contracts import Fit, Hypothesis, WeakLearner, ZSet
from raycipe.framework.registry import register

PER_EDGE = 21


class _Memory:
    """The rows that an oracle knows. A row that it does not know counts as the nearest one that it does."""

    def __init__(self, X: np.ndarray) -> None:
        self.X = X
        self._last: tuple[Any, np.ndarray] = (X, np.arange(len(X)))
        self._tree: Any = None

    def rows(self, X: np.ndarray) -> np.ndarray:
        if X is not self._last[0]:
            if self._tree is None:
                from scipy.spatial import KDTree

                self._tree = KDTree(self.X)
            self._last = (X, np.asarray(self._tree.query(X)[1]))
        return self._last[1]


class _Answers:
    def __init__(self, memory: _Memory, values: np.ndarray) -> None:
        self.memory = memory
        self.values = values

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.values[self.memory.rows(X)]


@register
class ZOracle(WeakLearner):
    """An adversary that knows the labels and promises pairs (FP, FN) in a set Z: it helps as little as Z allows.

    For the distribution that it is asked at, with label mass p, it takes the point z of Z's rim with the least
    |z1 / (1 - p) + z2 / p - 1|, the coin's own if Z holds one, and errs on examples of these masses, heavy ones first.
    It tests what boosting promises. Rows that it was not fitted on get the answer of the nearest row.

    Args:
        z: what it promises
        adversary: worst takes the point nearest to a coin's, random any point of the rim
        fractional: lets one example of each label be wrong in part, so that the masses are met exactly

    Recipe:
        data: breast_cancer
        estimator:
          type: zboost
          weak: {type: z_oracle, z: {type: box, fp: 0.1, fn: 0.3}}
          z: {type: box, fp: 0.1, fn: 0.3}
    """

    def __init__(self, z: ZSet, adversary: Literal["worst", "random"] = "worst", fractional: bool = False) -> None:
        self.z = z
        self.adversary = adversary
        self.fractional = fractional

    def prepare(self, X: np.ndarray, y: np.ndarray) -> Fit:
        memory, pieces = _Memory(X), self.z.pieces()

        def fit(weights: np.ndarray, generator: np.random.Generator) -> Hypothesis:
            mass = float(weights[y].sum())
            z = self._point(rim(pieces, mass), mass, generator)
            up = bool(geometry.coin_gap(z, mass) > 1e-12)
            values = y.astype(float)
            for label, target in ((~y, z[0]), (y, z[1])):
                wrong = mistakes(weights[label], target, up, self.fractional, generator)
                values[label] = np.abs(values[label] - wrong)
            return _Answers(memory, values)

        return fit

    def _point(self, points: np.ndarray, mass: float, generator: np.random.Generator) -> np.ndarray:
        """What it aims at; half a coin where nobody could keep the promise."""
        if not len(points):
            return np.array([(1 - mass) / 2, mass / 2])
        if self.adversary == "random":
            return points[generator.integers(len(points))]
        return points[int(np.abs(geometry.coin_gap(points, mass)).argmin())]


def rim(pieces: list[np.ndarray], p: float) -> np.ndarray:
    """Points (n, 2) on the rim of what is left of Z in R_p = [0, 1 - p] x [0, p], the coin's own among them."""
    found = [np.zeros((0, 2))]
    shares = np.linspace(0, 1, PER_EDGE)
    for piece in pieces:
        cut = geometry.clip(geometry.clip(piece, (1, 0), 1 - p), (0, 1), p)
        if not len(cut):
            continue
        a, b = cut, np.roll(cut, -1, axis=0)
        found.append((a[:, None, :] + shares[None, :, None] * (b - a)[:, None, :]).reshape(-1, 2))
        gap_a, gap_b = geometry.coin_gap(a, p), geometry.coin_gap(b, p)
        crosses = gap_a * gap_b < 0
        share = gap_a[crosses] / (gap_a[crosses] - gap_b[crosses])
        found.append(a[crosses] + share[:, None] * (b - a)[crosses])
    return np.concatenate(found)


def mistakes(
    weights: np.ndarray, target: float, up: bool, fractional: bool, generator: np.random.Generator
) -> np.ndarray:
    """Which examples (n,) to get wrong, in [0, 1], so that their weights sum to the target: at most it, or at least.

    Heavy examples come first, in an order that random factors shuffle a little.
    """
    wrong = np.zeros(len(weights))
    order = np.argsort(-weights * generator.uniform(0.5, 1.5, len(weights)), kind="stable")
    sums = np.cumsum(weights[order])
    whole = int(np.searchsorted(sums, target + 1e-15, side="right"))
    wrong[order[:whole]] = 1.0
    left = target - (sums[whole - 1] if whole else 0.0)
    if whole == len(weights) or left <= 0:
        return wrong
    if fractional:
        wrong[order[whole]] = left / weights[order[whole]]
    elif up:
        wrong[order[whole]] = 1.0
    else:  # smaller ones that still fit
        for at in order[whole + 1 :]:
            if weights[at] <= left:
                wrong[at] = 1.0
                left -= weights[at]
    return wrong
