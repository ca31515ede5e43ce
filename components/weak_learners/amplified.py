"""From a learner that often succeeds to one that nearly always does."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from raycipe.components.weak_learners._centerpoint import centerpoint
from raycipe.components.weak_learners._pairs import pair, part_of
from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Fit, Hypothesis, WeakLearner, ZSet
from raycipe.framework.registry import register

LOWEST = {"convex": 2 / 3, "downward": 1 / 2}  # success that the copies must have


@dataclass(frozen=True)
class Mixture:
    """Says positive with the mean probability of a few hypotheses: its expected (FP, FN) is the mean of theirs."""

    hypotheses: tuple[Hypothesis, ...]
    weights: np.ndarray
    points: np.ndarray  # (k, 2) of all copies, as measured
    point: np.ndarray  # (2,) chosen
    depth: int  # of the chosen point among them; 0 where a copy was selected
    eps: float = 0.0  # how well the pairs are known; 0 where they were measured on the distribution itself

    def __call__(self, X: np.ndarray) -> np.ndarray:
        found = np.zeros(len(X))
        for weight, hypothesis in zip(self.weights, self.hypotheses, strict=True):
            found += weight * hypothesis(X)
        return np.clip(found, 0.0, 1.0)


@register
class Amplified(WeakLearner):
    """Fits copies of a learner that keeps its promise with some probability, and makes one hypothesis of them.

    select knows the promise: of the copies, measured on held-out examples, the one deepest inside z. centerpoint does
    not: if more than 2/3 of the copies keep a convex promise, a centerpoint of their pairs (FP, FN) keeps it, too; it
    is a mixture of at most three copies. Neither the mean nor the median of the pairs does that. On n held-out examples
    the pairs are known to eps = sqrt(ln(8 k / delta) / 2 n), and the result is in Z enlarged by 2 eps.

    Args:
        base: the learner
        by: select takes a success above 0, centerpoint one above 2/3 (1/2 with shape: downward)
        z: the promise, for select
        copies: how many are fitted each time; null takes what `success` and `delta` ask for
        shape: of the unknown promise: convex, or downward for a convex one that smaller errors always keep
        holdout: share of the examples that measures the copies; 0 measures them where they were fitted
        success: probability with which a copy keeps the promise
        delta: probability with which the result may break it
        derandomize: draw one of the mixed copies by its weight: the same expectation, values of 0 and 1

    Reference:
        R. Rado, A Theorem on General Measure, Journal of the London Mathematical Society 1946.

    Recipe:
        data: breast_cancer
        estimator:
          type: zboost
          weak: {type: amplified, copies: 15, base: {type: flaky, base: stump, success: 0.8, failure: adversarial}}
          rounds: 10
    """

    def __init__(
        self,
        base: WeakLearner,
        by: Literal["select", "centerpoint"] = "centerpoint",
        z: ZSet | None = None,
        copies: Annotated[int, Range(ge=1, le=10_000)] | None = 31,
        shape: Literal["convex", "downward"] = "convex",
        holdout: Annotated[float, Range(ge=0, lt=1)] = 0.2,
        success: Annotated[float, Range(gt=0, le=1)] = 0.8,
        delta: Annotated[float, Range(gt=0, lt=1)] = 0.05,
        derandomize: bool = False,
    ) -> None:
        if by == "select" and z is None:
            raise ValueError("by: select needs the promise: give z")
        if by == "centerpoint" and success <= LOWEST[shape]:
            more = "shape: downward takes more than 1/2" if shape == "convex" else "select with z takes any"
            bound = "2/3" if shape == "convex" else "1/2"
            raise ValueError(
                f"success: must be above {bound} for a centerpoint of an unknown {shape} promise, and no rule can do "
                f"with less; {more}"
            )
        self.base = base
        self.by = by
        self.z = z
        self.copies = copies
        self.shape = shape
        self.holdout = holdout
        self.success = success
        self.delta = delta
        self.derandomize = derandomize

    def allows_nan(self) -> bool:
        return self.base.allows_nan()

    @property
    def count(self) -> int:
        """How many copies are fitted."""
        if self.copies is not None:
            return self.copies
        return copies_needed(self.by, self.shape, self.success, self.delta)

    def prepare(self, X: np.ndarray, y: np.ndarray) -> Fit:
        inner = self.base.prepare(X, y)

        def fit(weights: np.ndarray, generator: np.random.Generator) -> Hypothesis:
            held = self._held_out(y, generator)
            there = part_of(weights, y, ~held) if held.any() else weights
            measured = part_of(weights, y, held) if held.any() else weights
            copies = [inner(there, generator) for _ in range(self.count)]
            points = np.array([pair(np.asarray(copy(X), dtype=float), y, measured) for copy in copies])
            eps = measured_to(1 / float((measured**2).sum()), len(copies), self.delta) if held.any() else 0.0
            return replace(self.combine(copies, points, generator), eps=eps)

        return fit

    def _held_out(self, y: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """The share of each label, at least one example of it; (n,) bool."""
        found = np.zeros(len(y), dtype=bool)
        for label in (y, ~y) if self.holdout else ():
            rows = np.nonzero(label)[0]
            found[generator.permutation(rows)[: max(1, round(self.holdout * len(rows)))]] = True
        return found

    def combine(self, copies: list[Any], points: np.ndarray, generator: np.random.Generator) -> Mixture:
        """One hypothesis from k copies and their measured pairs (k, 2)."""
        if self.by == "select":
            assert self.z is not None  # the constructor asks for it
            best = int(geometry.slack(self.z.pieces(), points).argmax())
            return Mixture((copies[best],), np.ones(1), points, points[best], 0)
        center = centerpoint(points, generator, self.shape == "downward")
        used = np.nonzero(center.weights)[0]
        weights = center.weights[used]
        if self.derandomize:
            used = used[[int(generator.choice(len(used), p=weights / weights.sum()))]]
            weights = np.ones(1)
        return Mixture(tuple(copies[i] for i in used), weights, points, center.point, center.depth)


def copies_needed(by: str, shape: str, success: float, delta: float) -> int:
    """k for a result that breaks the promise with probability at most delta, measuring aside.

    select: (1 - q)^k <= delta / 2. centerpoint: exp(-2 k (q - 2/3)²) <= delta, or with 1/2 for downward promises.
    """
    if by == "select":
        return max(1, math.ceil(math.log(2 / delta) / -math.log1p(-success))) if success < 1 else 1
    return math.ceil(math.log(1 / delta) / (2 * (success - LOWEST[shape]) ** 2))


def measured_to(examples: float, copies: int, delta: float) -> float:
    """eps: so well the pairs of all copies are known, with probability 1 - delta / 2 (Hoeffding)."""
    return math.sqrt(math.log(8 * copies / delta) / (2 * examples))
