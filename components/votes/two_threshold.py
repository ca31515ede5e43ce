"""Both kinds of errors within budgets, and no decision between."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from raycipe.components.votes import _rules as rules
from raycipe.components.votes.budget import need_held_out
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Vote
from raycipe.framework.registry import register


@register
class TwoThreshold(Vote):
    """Positive above one threshold, negative at another and below, undecided between; each budget holds by itself.

    Each threshold is that of `budget`, for false positives and, mirrored, for false negatives; each is kept with
    confidence 1 - delta. Where both budgets can be kept without leaving anything open, nothing is.

    Args:
        fp_budget: the largest mass of false positives
        fn_budget: the largest mass of false negatives
        delta: the probability with which each may be broken; null counts on the held-out examples, without guarantee

    Reference:
        X. Tong, Y. Feng, J. J. Li, Neyman-Pearson Classification Algorithms and NP ROC, Science Advances 2018.

    Recipe:
        data: breast_cancer
        estimator:
          type: zboost
          positive: malignant
          vote: {type: two_threshold, fp_budget: 0.01, fn_budget: 0.01, delta: null}
          rounds: 50
    """

    def __init__(
        self,
        fp_budget: rules.Budget,
        fn_budget: rules.Budget,
        delta: Annotated[float, Range(gt=0, lt=1)] | None = 0.05,
    ) -> None:
        self.fp_budget = fp_budget
        self.fn_budget = fn_budget
        self.delta = delta

    def thresholds(self, scores: np.ndarray, y: np.ndarray, weights: np.ndarray, held_out: bool) -> tuple[float, float]:
        need_held_out(self.delta, held_out)
        high = rules.limit(scores, ~y, weights, self.fp_budget, self.delta, False, "fp_budget")
        # An example at the lower threshold itself is called negative: the next float below keeps it positive.
        low = np.nextafter(-rules.limit(-scores, y, weights, self.fn_budget, self.delta, False, "fn_budget"), -np.inf)
        if low <= high:
            return float(low), float(high)
        middle = float(min(max((low + high) / 2, high), low))
        return middle, middle
