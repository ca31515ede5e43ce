"""Z-boosting on plain arrays: two distributions, one over the positives and one over the negatives, and a label mass.

    symbol     meaning                                                             shape
    f          score of each example, the sum of alpha_t h_t                       (m,)
    D+, D-     distributions over positives and negatives: s exp(-f), s exp(+f)    (m,), zero on the other label
    p          label mass at which the learner is asked: D = p D+ + (1 - p) D-     ()
    tpr, fpr   E_D+ h, E_D- h of a hypothesis h                                    ()
    r          tpr - fpr; a hypothesis with r < 0 is replaced by 1 - h             ()

Bipartite boosting as in Y. Freund, R. Iyer, R. Schapire, Y. Singer, An Efficient Boosting Algorithm for Combining
Preferences, JMLR 2003; the label mass and its search are derived from what the paper on Z-learners (2026) announces.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from raycipe.components.estimators._masses import Ask, Query, Search
from raycipe.framework.contracts import Fit, Hypothesis
from raycipe.framework.streams import numpy_generator

Step = Literal["exact", "rank", "hedge"]
Until = Literal["rounds", "separated"]
MAX_STEP = 10.0
LEAST_EDGE = 1e-6
SEPARATION = 1e-12  # of the scores' scale


class Round(NamedTuple):
    """One round: what the learner gave at label mass p (before a flip), the step, and the bound so far."""

    p: float
    tpr: float
    fpr: float
    edge: float  # |tpr - fpr|
    is_flipped: bool
    alpha: float
    factor: float  # by which the pair loss shrinks at least
    bound: float  # product of the factors: the pair loss is at most this
    queries: int


@dataclass
class Boosted:
    """The hypotheses with their steps, and how they came about. `scores` are in [0, 1]."""

    hypotheses: list[Hypothesis] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    asked: list[tuple[int, float, float, float]] = field(default_factory=list)  # round, p, FP, FN of every query
    stop: str = ""
    violations: int = 0
    separated_at: int | None = None  # the first number of rounds after which all labels were separated
    is_separated: bool = False  # at the end
    train_scores: np.ndarray = field(default_factory=lambda: np.zeros(0))  # f / sum alpha

    def scores(self, X: np.ndarray) -> np.ndarray:
        """(n,): sum alpha h / sum alpha; 1/2 where there are no hypotheses."""
        total = math.fsum(each.alpha for each in self.rounds)
        if not total:
            return np.full(len(X), 0.5)
        return sum_of(self, X) / total

    def staged(self, X: np.ndarray) -> np.ndarray:
        """(rounds, n): the scores after each round."""
        parts = np.stack([values * each.alpha for each, values in self._values(X)])
        return np.cumsum(parts, axis=0) / np.cumsum([each.alpha for each in self.rounds])[:, None]

    def _values(self, X: np.ndarray) -> list[tuple[Round, np.ndarray]]:
        X = np.array(X)
        pairs = zip(self.rounds, self.hypotheses, strict=True)
        return [(each, 1 - h(X) if each.is_flipped else h(X)) for each, h in pairs]


def sum_of(boosted: Boosted, X: np.ndarray) -> np.ndarray:
    X = np.array(X)  # of its own, so that what hypotheses remember of it can't go stale
    found = np.zeros(len(X))
    for each, h in zip(boosted.rounds, boosted.hypotheses, strict=True):
        found += each.alpha * (1 - h(X) if each.is_flipped else h(X))
    return found


def boost(
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    fit: Fit,
    search: Search,
    *,
    rounds: int,
    step: Step = "exact",
    until: Until = "rounds",
    patience: int = 10,
    seed: int = 0,
    promised: float = 0.0,
    on_broken: Callable[[int, Query], Search] | None = None,
) -> Boosted:
    """Z-boosting of y (n,) bool from X (n, d) with weights (n,) > 0.

    `search` chooses the label masses. `promised` is gamma of the promise: a smaller edge breaks it, is counted, and
    `on_broken(round, query)` says how to go on. Ends after `rounds`, with `until` when the labels are separated, after
    `patience` rounds in a row without an edge, or with a hypothesis that errs nowhere.
    """
    found, f, stalled, bound = Boosted(), np.zeros(len(y)), 0, 1.0
    prior = np.where(y, weights / weights[y].sum(), weights / weights[~y].sum())
    for t in range(rounds):
        ask = _Asking(X, y, fit, distributions(f, y, prior), seed, t, found.asked)
        query = search.choose(ask)
        if query is not None and query.edge < promised * (1 - 1e-6) - 1e-9:
            found.violations += 1
            if on_broken is not None:
                search, promised = on_broken(t, query), 0.0
                query = search.choose(ask)
        if query is None or query.edge <= LEAST_EDGE:
            stalled += 1
            if stalled >= patience:
                found.stop = "stalled"
                break
            continue
        stalled = 0
        values = 1 - query.values if query.is_flipped else query.values
        alpha = step_size(values, ask.positive, ask.negative, len(y), rounds, step)
        factor = shrinkage(values, ask.positive, ask.negative, alpha)
        f += alpha * values
        bound *= factor
        found.hypotheses.append(query.hypothesis)
        found.rounds.append(
            Round(query.p, query.tpr, query.fpr, query.edge, query.is_flipped, alpha, factor, bound, ask.count)
        )
        found.is_separated = bool(f[y].min() > f[~y].max() + SEPARATION * max(1.0, f.max()))
        if found.is_separated and found.separated_at is None:
            found.separated_at = len(found.rounds)
        if found.is_separated and (until == "separated" or query.edge >= 1 - SEPARATION):
            found.stop = "separated"
            break
    found.stop = found.stop or "rounds"
    total = math.fsum(each.alpha for each in found.rounds)
    found.train_scores = f / total if total else np.full(len(y), 0.5)
    return found


def distributions(f: np.ndarray, y: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(D+, D-): prior exp(-f) on the positives, prior exp(+f) on the negatives, each of sum 1."""
    shifted = np.where(y, f[y].min() - f, f - f[~y].max())  # at most 0
    mass = prior * np.exp(shifted)
    positive, negative = np.where(y, mass, 0.0), np.where(y, 0.0, mass)
    return positive / positive.sum(), negative / negative.sum()


class _Asking:
    """Asks the learner at a label mass, in one round."""

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        fit: Fit,
        current: tuple[np.ndarray, np.ndarray],
        seed: int,
        number: int,
        asked: list[tuple[int, float, float, float]],
    ) -> None:
        self.X, self.y, self.fit, self.seed, self.number, self.asked = X, y, fit, seed, number, asked
        self.positive, self.negative = current
        self.count = 0

    def __call__(self, p: float) -> Query:
        generator = numpy_generator(self.seed, "zboost", self.number, self.count)
        self.count += 1
        try:
            hypothesis = self.fit(p * self.positive + (1 - p) * self.negative, generator)
            values = np.asarray(hypothesis(self.X), dtype=float)
        except Exception as error:
            error.add_note(f"the weak learner failed in round {self.number} at label mass {p:.4g}")
            raise
        if values.shape != self.y.shape or not (values.min() >= 0 and values.max() <= 1):
            raise ValueError(f"weak: a hypothesis must give {self.y.shape} numbers in [0, 1], not {values.shape}")
        tpr, fpr = float(self.positive @ values), float(self.negative @ values)
        self.asked.append((self.number, p, (1 - p) * fpr, p * (1 - tpr)))
        return Query(p, tpr, fpr, hypothesis, values)


def step_size(
    h: np.ndarray, positive: np.ndarray, negative: np.ndarray, m: int, rounds: int = 1, step: Step = "exact"
) -> float:
    """alpha > 0 of a hypothesis h (m,) with tpr > fpr.

    exact minimizes the bound on the pair loss, E_D+[exp(-a h)] E_D-[exp(a h)]; for h in {0, 1} that is
    1/2 ln(tpr (1 - fpr) / ((1 - tpr) fpr)), smoothed by m^(-3/2). rank: 1/2 ln((1 + r) / (1 - r)).
    hedge: sqrt(8 ln m / rounds).
    """
    tpr, fpr = float(positive @ h), float(negative @ h)
    if step == "hedge":
        return math.sqrt(8 * math.log(max(2, m)) / rounds)
    if step == "rank":
        r = min(tpr - fpr, 1.0)
        return min(MAX_STEP, 0.5 * math.log((1 + r) / (1 - r))) if r < 1 else MAX_STEP
    if np.all((h == 0) | (h == 1)):
        s = m**-1.5
        odds = (tpr + s) * (max(0.0, 1 - fpr) + s) / ((max(0.0, 1 - tpr) + s) * (fpr + s))
        return min(MAX_STEP, 0.5 * math.log(odds))
    return _newton(h, positive, negative)


def _newton(h: np.ndarray, positive: np.ndarray, negative: np.ndarray) -> float:
    """The minimum over (0, MAX_STEP] of the convex log E_D+[exp(-a h)] + log E_D-[exp(a h)]."""
    low, high, a = 0.0, MAX_STEP, 1.0
    for _ in range(60):
        up, down = positive * np.exp(-a * h), negative * np.exp(a * h)
        up, down = up / up.sum(), down / down.sum()
        mean_up, mean_down = float(up @ h), float(down @ h)
        slope = mean_down - mean_up
        curve = float(up @ (h - mean_up) ** 2 + down @ (h - mean_down) ** 2)
        low, high = (a, high) if slope < 0 else (low, a)
        wanted = a - slope / curve if curve > 0 else math.inf
        new = wanted if low < wanted < high else (low + high) / 2
        if abs(new - a) < 1e-12:
            break
        a = new
    return a


def shrinkage(h: np.ndarray, positive: np.ndarray, negative: np.ndarray, alpha: float) -> float:
    """E_D+[exp(-alpha h)] E_D-[exp(alpha h)]: the factor of the bound on the pair loss."""
    if np.all((h == 0) | (h == 1)):
        tpr, fpr = float(positive @ h), float(negative @ h)
        return (1 - tpr + tpr * math.exp(-alpha)) * (1 - fpr + fpr * math.exp(alpha))
    return float((positive @ np.exp(-alpha * h)) * (negative @ np.exp(alpha * h)))


def pair_loss(scores: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The share of pairs (positive, negative) with f(x+) <= f(x-), weighted."""
    s = np.ones(len(y)) if weights is None else weights
    order = np.argsort(scores, kind="stable")
    positives, ordered = np.where(y, s, 0.0)[order], scores[order]
    upto = np.cumsum(positives)
    last = np.searchsorted(ordered, scores[~y], side="right") - 1
    return float((s[~y] * upto[last]).sum() / (s[y].sum() * s[~y].sum()))


def rounds_bound(weights: np.ndarray, y: np.ndarray, gamma: float) -> int:
    """ceil(2 ln(m+ m-) / gamma²); with weights that sum to 1 in each class ceil(-2 ln(min s+ min s-) / gamma²)."""
    least = (weights[y] / weights[y].sum()).min() * (weights[~y] / weights[~y].sum()).min()
    return max(1, math.ceil(-2 * math.log(least) / gamma**2))


__all__ = ["Ask", "Boosted", "Query", "Round", "Step", "boost", "pair_loss", "rounds_bound", "step_size"]
