"""One feature, one threshold."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np

from raycipe.components.weak_learners._pairs import Above, Constant
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Fit, Hypothesis, WeakLearner
from raycipe.framework.registry import register

BLOCK = 10_000_000  # numbers held at a time


@register
class Stump(WeakLearner):
    """The decision stump of least weighted error, found among all features and all thresholds.

    h(x) = [x_j > t] or its opposite. Features are sorted once; a fit is one cumulative sum of signed weights over each.

    Args:
        max_bins: thresholds tried per feature, at quantiles of the training examples; 0 for all of them

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, weak: {type: stump, max_bins: 64}, rounds: 20}
    """

    is_best_at_half: ClassVar[bool] = True

    def __init__(self, max_bins: Annotated[int, Range(ge=0, le=65_536)] = 0) -> None:
        self.max_bins = max_bins

    def prepare(self, X: np.ndarray, y: np.ndarray) -> Fit:
        blocks = []
        step = max(1, BLOCK // max(1, len(X)))
        for start in range(0, X.shape[1], step):
            blocks.append(_Sorted(X[:, start : start + step], start, self.max_bins))

        def fit(weights: np.ndarray, generator: np.random.Generator) -> Hypothesis:
            signed = np.where(y, weights, -weights)
            negative = float(weights[~y].sum())
            return max((block.best(signed, negative) for block in blocks), key=lambda found: found[0])[1]

        return fit


class _Sorted:
    """The features of a block, each sorted: `order` (features, n), and the thresholds between neighbouring values."""

    def __init__(self, X: np.ndarray, first: int, max_bins: int) -> None:
        self.first = first
        self.order = np.ascontiguousarray(np.argsort(X, axis=0, kind="stable").T)
        self.values = np.take_along_axis(X.T, self.order, axis=1)
        allowed = self.values[:, 1:] > self.values[:, :-1]
        if max_bins and X.shape[0] > max_bins:
            allowed &= _quantiles(allowed, max_bins)
        self.is_empty = not allowed.any()
        self.blocked = np.nonzero(~np.pad(allowed, ((0, 0), (0, 1))))  # no cut there, nor below all
        self.flat = np.nonzero(np.pad(allowed, ((0, 0), (0, 1))).reshape(-1))[0]
        self.is_sparse = 4 * len(self.flat) < allowed.size  # then the few cuts are picked out
        self.sums = np.empty(self.order.shape)

    def best(self, signed: np.ndarray, negative: float) -> tuple[float, Hypothesis]:
        """The largest |error - 1/2| and its stump. With S the signed weight at or below t, [x > t] errs by S + W-."""
        if self.is_empty:
            return 0.0, Constant(0.5)
        np.take(signed, self.order, out=self.sums, mode="clip")
        np.cumsum(self.sums, axis=1, out=self.sums)
        if self.is_sparse:
            errors = self.sums.reshape(-1)[self.flat]
        else:
            self.sums[self.blocked] = 0.5 - negative  # as bad as a coin
            errors = self.sums.reshape(-1)
        low, high = int(errors.argmin()), int(errors.argmax())
        edges = 0.5 - negative - errors[low], errors[high] - 0.5 + negative
        at = low if edges[0] >= edges[1] else high
        place = int(self.flat[at]) if self.is_sparse else at
        feature, cut = divmod(place, self.order.shape[1])
        below, above = self.values[feature, cut], self.values[feature, cut + 1]
        middle = below + (above - below) / 2
        threshold = middle if middle < above else below  # the middle of two neighbouring floats is one of them
        found = Above(self.first + feature, float(threshold), bool(at == high and edges[0] < edges[1]))
        return float(max(edges)), found


def _quantiles(allowed: np.ndarray, bins: int) -> np.ndarray:
    """Of the allowed cuts of each feature those nearest below the quantiles k / bins of the examples."""
    kept = np.zeros_like(allowed)
    wanted = np.linspace(0, allowed.shape[1], bins + 1)[1:-1].astype(int)
    for row, cuts in zip(kept, allowed, strict=True):
        there = np.nonzero(cuts)[0]
        if len(there):
            row[there[np.clip(np.searchsorted(there, wanted, side="right") - 1, 0, None)]] = True
    return kept
