"""Boosting of learners that promise a pair of false positives and false negatives."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from raycipe.components.estimators import _boost as boosting
from raycipe.components.estimators import _zreport as report
from raycipe.components.estimators._binary import Binary
from raycipe.components.estimators._masses import Adaptive, Among, Query, Search
from raycipe.components.estimators._operating import FEW
from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.arguments import Count, FromData, Length, Range, default
from raycipe.framework.contracts import Measured, Vote, WeakLearner, ZSet
from raycipe.framework.errors import RunError
from raycipe.framework.registry import build, register

Mass = Annotated[float, Range(gt=0, lt=1)]


@register
class Zboost(Binary):
    """Z-boosting: weak learners whose (false positives, false negatives) lie in a set Z are boosted to few errors.

    Two distributions D+ ∝ s exp(-f) and D- ∝ s exp(f) over positives and negatives; the learner sees p D+ + (1 - p) D-
    and gives h; f += alpha h, or 1 - h where that is better. Any Z that a coin can't keep at label mass p has
    |tpr - fpr| >= gamma there, and all labels are separated after 2 ln(m+ m-) / gamma² rounds.

    Of the paper only the abstract is known; the algorithm is derived from it, and the book shows how.

    Args:
        weak: the learner
        z: what it promises; null promises nothing, and the label masses are searched for
        p: label mass to ask at; a list asks at each and keeps the best; auto is Z's own, or the search without z (1/2
            for learners that return their least error, which gain nothing elsewhere)
        rounds: at most; auto is the bound above, for a known z
        until: rounds goes on after all training labels are separated, which widens margins; separated stops there
        step: alpha by the exact minimum of the bound, by the rank rule, or constant (hedge)
        vote: turns scores into labels
        calibration: share of the training examples held out for the vote and for probabilities; 0 uses all for both
        patience: rounds in a row without an edge after which it gives up
        positive: the class to find, by its name; null takes the second of the two
        on_violation: a learner that breaks the promise of z is only counted, ends the fit, or starts the search
        force: boost with a z that the test calls trivial
        max_queries: of the search in one round
        class_names: of the data

    Reference:
        The paper that introduces Z-learners, NeurIPS 2026 (abstract); Y. Freund et al., RankBoost, JMLR 2003.

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, positive: malignant, rounds: 100}
    """

    reports: ClassVar[tuple[str, ...]] = report.NAMES
    given: ClassVar[tuple[str, ...]] = ("seed",)

    def __init__(
        self,
        weak: WeakLearner = default("stump"),
        z: ZSet | None = None,
        p: Literal["auto"] | Mass | Annotated[list[Mass], Length(1, 1000)] = "auto",
        rounds: Literal["auto"] | Count = 200,
        until: boosting.Until = "rounds",
        step: boosting.Step = "exact",
        vote: Vote = default("threshold"),
        calibration: Annotated[float, Range(ge=0, lt=1)] = 0.25,
        patience: Count = 10,
        positive: str | int | None = None,
        on_violation: Literal["warn", "error", "adapt"] = "adapt",
        force: bool = False,
        max_queries: Count = 64,
        class_names: Annotated[list[str] | None, FromData("class_names")] = None,
        seed: int = 0,
    ) -> None:
        if isinstance(rounds, str) and z is None:
            raise ValueError("rounds: auto is the bound of a known z, and there is none: give a number")
        self.weak = weak
        self.z = z
        self.p = p
        self.rounds = rounds
        self.until = until
        self.step = step
        self.vote = vote
        self.calibration = calibration
        self.patience = patience
        self.positive = positive
        self.on_violation = on_violation
        self.force = force
        self.max_queries = max_queries
        self.class_names = class_names
        self.seed = seed

    def allows_nan(self) -> bool:
        learner: WeakLearner = build(self.weak, "weak_learners", "estimator.weak")
        return learner.allows_nan()

    def learn(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        learner: WeakLearner = build(self.weak, "weak_learners", "estimator.weak")
        self.test_ = self._test()
        self.masses_, search = self._search(learner)
        few = min(int(y.sum()), int((~y).sum()))
        if few < FEW:
            warnings.warn(f"one of the classes has {few} training examples", UserWarning, stacklevel=3)
        gamma = self._promised()
        self.bound_ = boosting.rounds_bound(weights, y, gamma) if gamma else None
        self.least_error_ = report.least_error(X, y, weights)
        rounds = self.rounds if self.rounds != "auto" else self.bound_ or 1
        self.boosted_ = boosting.boost(
            X,
            y,
            weights,
            learner.prepare(X, y),
            search,
            rounds=int(rounds),
            step=self.step,
            until=self.until,
            patience=self.patience,
            seed=self.seed,
            promised=gamma,
            on_broken=None if self.on_violation == "warn" else self._broken,
        )
        self.search_ = search
        self.pair_loss_ = boosting.pair_loss(self.boosted_.train_scores, y, weights)
        self.n_iter_ = len(self.boosted_.rounds)

    def _test(self) -> geometry.Boostability | None:
        """Whether Z can be boosted. Raises RunError with the coin that keeps the promise if it can't."""
        if self.z is None:
            return None
        z: ZSet = build(self.z, "z_sets", "estimator.z")
        try:
            found = geometry.boostability(z.pieces())
        except ValueError as error:
            raise RunError("recipe", f"z {error}", where="estimator.z") from error
        if not found.is_boostable and not self.force:
            raise report.trivial(found)
        return found

    def _search(self, learner: WeakLearner) -> tuple[str, Search]:
        """Where to ask, in words and as the search itself."""
        if isinstance(self.p, list):
            return "the best of a list", Among(self.p)
        if self.p != "auto":
            return "given", Among([float(self.p)])
        if self.test_ is not None and self.test_.is_boostable:
            return "of the promise", Among([self.test_.p_star])
        if learner.is_best_at_half:
            return "1/2, where this learner has its largest edge", Among([0.5])
        return "searched for", Adaptive(self.max_queries)

    def _promised(self) -> float:
        """The gap that the promise leaves at the masses asked at; 0 where nothing is promised."""
        if self.test_ is None or self.z is None or not self.test_.is_boostable:
            return 0.0
        if self.p == "auto":
            return self.test_.gamma
        z: ZSet = build(self.z, "z_sets", "estimator.z")
        masses = self.p if isinstance(self.p, list) else [self.p]
        gaps = geometry.gaps_at(z.pieces(), np.array(masses, dtype=float))
        return float(gaps[np.isfinite(gaps)].max(initial=0.0))

    def _broken(self, number: int, query: Query) -> Search:
        if self.on_violation == "error":
            raise report.broken(number, query, self._promised())
        return Adaptive(self.max_queries)

    def score_rows(self, X: np.ndarray) -> np.ndarray:
        return self.boosted_.scores(X)

    def staged_vote_scores(self, X: Any) -> np.ndarray:
        """(rounds, n): the scores after each round."""
        return self.boosted_.staged(self._rows(X))

    def evidence(self) -> Measured:
        return report.evidence(self)
