"""Shared by the votes: thresholds at which a budget of errors is kept, with confidence or as counted."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from raycipe.framework.arguments import Range
from raycipe.framework.errors import RunError

Budget = Annotated[float, Range(gt=0, lt=1)]


def rank_for(n: int, alpha: float, delta: float) -> int | None:
    """The smallest k with P(Bin(n, 1 - alpha) >= k) <= delta, or None if there is none up to n.

    Above the k-th smallest of n scores lies more than a share alpha of their law with probability at most delta
    (Tong, Feng, Li, Neyman-Pearson classification algorithms and NP receiver operating characteristics, 2018).
    """
    from scipy.stats import binom

    tails = binom.sf(np.arange(n), n, 1 - alpha)  # P(Bin >= k), k = 1 .. n
    there = np.nonzero(tails <= delta)[0]
    return int(there[0]) + 1 if len(there) else None


def least_examples(alpha: float, delta: float) -> int:
    """How many examples the rule needs: (1 - alpha)^n <= delta."""
    return math.ceil(math.log(delta) / math.log1p(-alpha))


def guaranteed(scores: np.ndarray, alpha: float, delta: float, what: str, argument: str) -> float:
    """The threshold above which a share of at most alpha of the law of `scores` lies, with probability 1 - delta.

    Raises RunError naming how many examples it takes.
    """
    k = rank_for(len(scores), alpha, delta)
    if k is None:
        message = f"{len(scores)} held-out {what} are too few for a share of {alpha:.4g} at confidence {1 - delta:.4g}"
        needed = least_examples(alpha, delta)
        hint = f"it takes {needed}: raise `calibration`, the budget or delta, or set delta: null for no guarantee"
        raise RunError("data", message, hint, f"estimator.vote.{argument}")
    return float(np.sort(scores)[k - 1])


def counted(scores: np.ndarray, weights: np.ndarray, budget: float) -> float:
    """The least threshold above which scores have a weight of at most `budget`."""
    order = np.argsort(scores, kind="stable")
    above = weights.sum() - np.cumsum(weights[order])
    return float(scores[order][int(np.argmax(above <= budget + 1e-12))])


def mass_above(y: np.ndarray, delta: float) -> float:
    """A bound that P(y) exceeds with probability at most delta (Clopper and Pearson)."""
    from scipy.stats import beta

    hits, n = int(y.sum()), len(y)
    return 1.0 if hits == n else float(beta.ppf(1 - delta, hits + 1, n - hits))


def limit(
    scores: np.ndarray,
    label: np.ndarray,
    weights: np.ndarray,
    budget: float,
    delta: float | None,
    is_rate: bool,
    argument: str,
) -> float:
    """The least threshold that examples of a label exceed within a budget.

    The budget bounds their joint mass P(score > t, label), or with `is_rate` their rate P(score > t | label). A joint
    mass B is kept by the rate B / P(label), whose divisor is bounded from above at confidence 1 - delta / 2.
    """
    if delta is None:
        whole = weights[label].sum() if is_rate else weights.sum()
        return counted(scores[label], weights[label] / whole, budget)
    what = "examples of the label"
    if is_rate:
        return guaranteed(scores[label], budget, delta, what, argument)
    rate = budget / mass_above(label, delta / 2)
    return guaranteed(scores[label], rate, delta / 2, what, argument) if rate < 1 else -math.inf
