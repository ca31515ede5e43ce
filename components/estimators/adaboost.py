"""AdaBoost, with or without costs: the baseline of Z-boosting in the same code."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np

from raycipe.components.estimators import _boost as boosting
from raycipe.components.estimators._binary import Binary
from raycipe.framework.arguments import Count, FromData, Positive, Range, default
from raycipe.framework.contracts import Measured, Vote, WeakLearner
from raycipe.framework.registry import build, register
from raycipe.framework.streams import numpy_generator


@register
class Adaboost(Binary):
    """AdaBoost of any weak learner: one distribution over all examples, whose label mass goes where it likes.

    D ∝ c s exp(-f) on positives and c s exp(f) on negatives, f += alpha (2 h - 1) with alpha = 1/2 ln((1 - e) / e) for
    the weighted error e; a learner with e >= 1/2 ends it. Labels come from the sign of f, which is score 1/2.

    Args:
        weak: the learner
        rounds: at most
        cost_fp: of a false positive: the weight that negatives begin with
        cost_fn: of a false negative: the weight that positives begin with
        vote: turns scores into labels
        calibration: share of the training examples held out for the vote and for probabilities; 0 uses all for both
        positive: the class to find, by its name; null takes the second of the two
        class_names: of the data

    Reference:
        Y. Freund, R. E. Schapire, A Decision-Theoretic Generalization of On-Line Learning, JCSS 1997.

    Recipe:
        data: breast_cancer
        estimator: {type: adaboost, positive: malignant, rounds: 100}
    """

    reports: ClassVar[tuple[str, ...]] = ("rounds", "train_error", "least_edge", "mean_p", "low", "high")
    given: ClassVar[tuple[str, ...]] = ("seed",)

    def __init__(
        self,
        weak: WeakLearner = default("stump"),
        rounds: Count = 200,
        cost_fp: Positive = 1.0,
        cost_fn: Positive = 1.0,
        vote: Vote = default("majority"),
        calibration: Annotated[float, Range(ge=0, lt=1)] = 0.25,
        positive: str | int | None = None,
        class_names: Annotated[list[str] | None, FromData("class_names")] = None,
        seed: int = 0,
    ) -> None:
        self.weak = weak
        self.rounds = rounds
        self.cost_fp = cost_fp
        self.cost_fn = cost_fn
        self.vote = vote
        self.calibration = calibration
        self.positive = positive
        self.class_names = class_names
        self.seed = seed

    def allows_nan(self) -> bool:
        learner: WeakLearner = build(self.weak, "weak_learners", "estimator.weak")
        return learner.allows_nan()

    def learn(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        learner: WeakLearner = build(self.weak, "weak_learners", "estimator.weak")
        fit = learner.prepare(X, y)
        prior = weights * np.where(y, self.cost_fn, self.cost_fp)
        self.hypotheses_, self.alphas_, self.masses_, self.edges_ = [], [], [], []
        f = np.zeros(len(y))
        for t in range(self.rounds):
            margin = np.where(y, -f, f)
            D = prior * np.exp(margin - margin.max())
            D /= D.sum()
            h = fit(D, numpy_generator(self.seed, "adaboost", t))
            values = np.asarray(h(X), dtype=float)
            error = float(D @ np.abs(values - y))
            if error >= 0.5 - boosting.LEAST_EDGE:
                break
            smooth = 1 / (2 * len(y)) ** 1.5
            alpha = min(boosting.MAX_STEP, 0.5 * math.log((1 - error + smooth) / (error + smooth)))
            f += alpha * (2 * values - 1)
            self.hypotheses_.append(h)
            self.alphas_.append(alpha)
            self.masses_.append(float(D[y].sum()))
            self.edges_.append(0.5 - error)
            if error <= boosting.SEPARATION:
                break
        self.n_iter_ = len(self.alphas_)
        self.train_error_ = float((weights * ((f > 0) != y)).sum() / weights.sum())

    def score_rows(self, X: np.ndarray) -> np.ndarray:
        rows, total = np.array(X), math.fsum(self.alphas_)
        if not total:
            return np.full(len(rows), 0.5)
        found = np.zeros(len(rows))
        for alpha, h in zip(self.alphas_, self.hypotheses_, strict=True):
            found += alpha * h(rows)
        return found / total

    def evidence(self) -> Measured:
        low, high = (float(np.clip(value, 0, 1)) for value in self.thresholds_)
        values = {"rounds": float(self.n_iter_), "train_error": self.train_error_, "low": low, "high": high}
        if self.edges_:
            values |= {"least_edge": min(self.edges_), "mean_p": float(np.mean(self.masses_))}
        return Measured(values=values)
