"""Shared by the weak learners: error pairs, distributions of a label mass, and hypotheses that others build on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raycipe.framework.contracts import Hypothesis


def pair(values: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(FP, FN) of values (n,) in [0, 1] for labels y (n,) bool under weights (n,) of sum 1."""
    return np.array([weights[~y] @ values[~y], weights[y] @ (1 - values[y])])


def part_of(weights: np.ndarray, y: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The weights on the chosen examples alone (n,), zero elsewhere, with the label mass that they had on all.

    Raises ValueError if a label has no weight there.
    """
    found = np.where(chosen, weights, 0.0)
    for label in (y, ~y):
        there = found[label].sum()
        if there <= 0:
            raise ValueError("holdout: a label has no weight in one of the parts; make it larger or smaller")
        found[label] *= weights[label].sum() / there
    return found


@dataclass(frozen=True)
class Constant:
    """Says positive with one probability, whatever the example."""

    probability: float

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.probability)


@dataclass(frozen=True)
class Opposite:
    """The other label."""

    of: Hypothesis

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return 1 - self.of(X)


@dataclass(frozen=True)
class Above:
    """Positive where a feature is above a threshold; with `is_flipped` where it is not."""

    feature: int
    threshold: float
    is_flipped: bool = False

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.asarray((X[:, self.feature] > self.threshold) != self.is_flipped, dtype=float)
