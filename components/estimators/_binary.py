"""What estimators of two classes share: labels, calibration part, vote, predictions; they differ in their scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from raycipe.components.estimators import _operating as operating
from raycipe.framework.contracts import Estimator
from raycipe.framework.errors import RunError
from raycipe.framework.registry import build


class Binary(ClassifierMixin, BaseEstimator, Estimator):  # type: ignore[misc]  # scikit-learn has no types
    """A scikit-learn classifier of two classes whose scores in [0, 1] a vote turns into labels.

    Subclasses keep `vote`, `calibration`, `positive`, `class_names` and `seed` as arguments, and fit in `learn`.
    Fitted: `classes_`, `positive_`, `thresholds_` (low, high), `calibrated_` (whether probabilities are).
    """

    scored: ClassVar[tuple[str, ...]] = operating.SCORED

    vote: Any
    calibration: float
    positive: str | int | None
    class_names: list[str] | None
    seed: int

    @abstractmethod
    def learn(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        """Fit what gives scores, on X (n, d) for labels y (n,) bool with weights (n,) > 0."""

    @abstractmethod
    def score_rows(self, X: np.ndarray) -> np.ndarray:
        """Scores (n,) in [0, 1] of rows that were validated."""

    def allows_nan(self) -> bool:
        return False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = self.allows_nan()
        return tags

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        if "num_classes" not in facts:
            message = f"{self.type_name} tells two classes apart, and the data's target is a number"
            raise RunError("recipe", message, facts.get("missing", {}).get("num_classes", ""), "estimator")
        for name, roles in splits.items():
            try:
                if name == "train":
                    self._labels(np.asarray(roles["y"]))
            except ValueError as error:
                raise RunError("data", f"`{name}`: {error}", where="estimator") from error
            if np.isnan(roles["X"]).any() and not self.allows_nan():
                message = f"`{name}` has missing values, and the learner of {self.type_name} does not take them"
                raise RunError("data", message, "take data.missing: drop or mean, where the data has it", "estimator")

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **roles: Any) -> Any:
        """X (n, d), y (n,) of two classes; weights (n,) as `sample_weight`, or as the role `weights`."""
        from sklearn.utils.multiclass import check_classification_targets

        finite: Any = "allow-nan" if self.allows_nan() else True
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite=finite)
        check_classification_targets(y)
        given = roles.get("weights", sample_weight)
        if given is not None:
            given = _check_sample_weight(given, X)
        weights = np.ones(len(y)) if given is None else np.asarray(given, dtype=float)
        label = self._labels(y)
        operating.check_weights(weights, label)
        kept = weights > 0
        X, label, weights = X[kept], label[kept], weights[kept]
        held = operating.held_out(label, self.calibration, self.seed)
        self.learn(X[~held], label[~held], weights[~held])
        part = held if held.any() else ~held
        scores = self.score_rows(X[part])
        vote = build(self.vote, "votes", "estimator.vote")
        self.thresholds_ = vote.thresholds(scores, label[part], weights[part], bool(held.any()))
        self.calibrated_ = bool(held.any())
        self.platt_ = operating.platt(scores, label[part], weights[part]) if self.calibrated_ else None
        return self

    def _labels(self, y: np.ndarray) -> np.ndarray:
        """(n,) bool; keeps the classes. Raises ValueError where two classes can't be told."""
        self.classes_ = np.unique(y)
        self.positive_ = operating.positive_class(self.classes_, self.positive, self.class_names)
        return np.asarray(y == self.positive_)

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "thresholds_")
        finite: Any = "allow-nan" if self.allows_nan() else True
        return np.asarray(validate_data(self, X, dtype=np.float64, ensure_all_finite=finite, reset=False))

    def vote_scores(self, X: Any) -> np.ndarray:
        """(n,) in [0, 1]: larger is more positive."""
        return self.score_rows(self._rows(X))

    @property
    def threshold_(self) -> float:
        """Where `predict` changes its mind: the middle of the two thresholds."""
        low, high = (float(np.clip(value, -1e-9, 1.0)) for value in self.thresholds_)
        return high if low == high else (low + high) / 2

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,): the score's distance from the threshold; above 0 is the second of `classes_`."""
        scores = self.vote_scores(X)
        sign = 1.0 if self.positive_ == self.classes_[1] else -1.0
        return sign * (scores - self.threshold_)

    def predict(self, X: Any) -> np.ndarray:
        """(n,) classes. Undecided examples go to the nearer side; `predict_sets` leaves them open."""
        scores = self.vote_scores(X)
        return self._named(scores > self.threshold_)

    def predict_sets(self, X: Any) -> np.ndarray:
        """(n, 2) bool: which of `classes_` each example may be; both where the vote is undecided."""
        scores = self.vote_scores(X)
        low, high = self.thresholds_
        may_be = np.column_stack([scores <= high, scores > low])  # negative, positive
        return may_be if self.positive_ == self.classes_[1] else may_be[:, ::-1]

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, 2) in the order of `classes_`; Platt's on the calibration part, else the score bent to the threshold."""
        scores = self.vote_scores(X)
        positive = self.platt_(scores) if self.platt_ is not None else operating.shifted(scores, self.threshold_)
        both = np.column_stack([1 - positive, positive])
        return both if self.positive_ == self.classes_[1] else both[:, ::-1]

    def _named(self, is_positive: np.ndarray) -> np.ndarray:
        other = self.classes_[self.classes_ != self.positive_][0]
        return np.where(is_positive, self.positive_, other).astype(self.classes_.dtype)

    def scores(self, facts: Mapping[str, Any], X: np.ndarray, y: np.ndarray, **roles: np.ndarray) -> dict[str, float]:
        return operating.scores_with_errors(self, facts, X, y)
