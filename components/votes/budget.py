"""False positives within a budget."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from raycipe.components.votes import _rules as rules
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Vote
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class Budget(Vote):
    """The least false negatives with false positives within a budget, guaranteed with confidence 1 - delta.

    On n negatives that the learners have not seen the threshold is the k-th smallest score, with the smallest k such
    that P(Bin(n, 1 - alpha) >= k) <= delta (Neyman-Pearson umbrella algorithm). It takes n >= ln delta / ln(1 - alpha).
    Examples are counted; weights are not looked at.

    Args:
        fp_budget: the largest mass P(predicted positive, negative), or the largest rate
        delta: the probability with which the budget may be broken; null takes the budget as counted on the held-out
            examples, without a guarantee
        of: mass of false positives among all examples, or their rate among the negatives (the usual fpr)

    Reference:
        X. Tong, Y. Feng, J. J. Li, Neyman-Pearson Classification Algorithms and NP ROC, Science Advances 2018.

    Recipe:
        data: breast_cancer
        estimator:
          type: zboost
          positive: malignant
          calibration: 0.5
          vote: {type: budget, fp_budget: 0.05, delta: 0.1}
    """

    def __init__(
        self,
        fp_budget: rules.Budget,
        delta: Annotated[float, Range(gt=0, lt=1)] | None = 0.05,
        of: Literal["mass", "rate"] = "mass",
    ) -> None:
        self.fp_budget = fp_budget
        self.delta = delta
        self.of = of

    def thresholds(self, scores: np.ndarray, y: np.ndarray, weights: np.ndarray, held_out: bool) -> tuple[float, float]:
        need_held_out(self.delta, held_out)
        found = rules.limit(scores, ~y, weights, self.fp_budget, self.delta, self.of == "rate", "fp_budget")
        return found, found


def need_held_out(delta: float | None, held_out: bool) -> None:
    """Raise RunError where a guarantee is asked for on examples that the learners have seen."""
    if delta is not None and not held_out:
        message = "a guarantee needs examples that the learners have not seen, and calibration is 0"
        raise RunError("recipe", message, "set calibration: 0.25, or delta: null for no guarantee", "estimator.vote")
