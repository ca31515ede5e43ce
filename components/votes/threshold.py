"""One threshold."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from raycipe.framework.arguments import NonNegative, Range
from raycipe.framework.contracts import Vote
from raycipe.framework.registry import register


@register
class Threshold(Vote):
    """Positive above a threshold: a given one, or that of least cost c_fp FP + c_fn FN.

    Where several are equally good it takes the middle of the widest gap between scores.

    Args:
        at: the threshold, in [0, 1]; null chooses the one of least cost
        cost_fp: c_fp, of a false positive
        cost_fn: c_fn, of a false negative

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, positive: malignant, vote: {type: threshold, cost_fn: 5}, rounds: 50}
    """

    def __init__(
        self,
        at: Annotated[float, Range(ge=0, le=1)] | None = None,
        cost_fp: NonNegative = 1.0,
        cost_fn: NonNegative = 1.0,
    ) -> None:
        if not cost_fp + cost_fn > 0:
            raise ValueError("cost_fp: one of the two costs must be above 0")
        self.at = at
        self.cost_fp = cost_fp
        self.cost_fn = cost_fn

    def thresholds(self, scores: np.ndarray, y: np.ndarray, weights: np.ndarray, held_out: bool) -> tuple[float, float]:
        chosen = cheapest(scores, y, weights, self.cost_fp, self.cost_fn) if self.at is None else self.at
        return chosen, chosen


def cheapest(scores: np.ndarray, y: np.ndarray, weights: np.ndarray, cost_fp: float, cost_fn: float) -> float:
    """The threshold of least c_fp FP + c_fn FN; among equals the middle of the widest gap."""
    order = np.argsort(scores, kind="stable")
    ordered, label, w = scores[order], y[order], weights[order]
    costs = np.concatenate([[0.0], np.cumsum(np.where(label, cost_fn * w, -cost_fp * w))])  # of all at or below
    edges = np.concatenate([[min(0.0, ordered[0]) - 1e-9], ordered, [max(1.0, ordered[-1])]])
    widths = np.diff(edges)
    usable = widths > 0
    usable[0] = usable[-1] = True  # all positive, all negative
    least = costs[usable].min()
    good = usable & (costs <= least + 1e-12 * weights.sum())
    at = int(np.where(good, widths, -1.0).argmax())
    return float(edges[at] + widths[at] / 2)
