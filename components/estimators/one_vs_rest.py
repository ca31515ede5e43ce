"""Many classes through classifiers of two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from raycipe.framework.contracts import Estimator
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class OneVsRest(ClassifierMixin, BaseEstimator, Estimator):  # type: ignore[misc]  # scikit-learn has no types
    """One classifier of two classes for each class against all others; the most probable class wins.

    p_k = q_k / sum_j q_j of the probabilities q_k that classifier k gives its class.

    Args:
        base: the classifier; it must tell probabilities

    Reference:
        R. Rifkin, A. Klautau, In Defense of One-Vs-All Classification, JMLR 2004.

    Recipe:
        data: digits
        estimator: {type: one_vs_rest, base: {type: zboost, rounds: 30}}
    """

    given: ClassVar[tuple[str, ...]] = ()

    def __init__(self, base: Estimator) -> None:
        self.base = base

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.base).input_tags.allow_nan
        return tags

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        if "num_classes" not in facts:
            hint = facts.get("missing", {}).get("num_classes", "")
            raise RunError(
                "recipe", "one_vs_rest tells classes apart, and the data's target is a number", hint, "estimator"
            )

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **roles: Any) -> Any:
        """X (n, d), y (n,) classes; weights (n,) as `sample_weight`, or as the role `weights`."""
        X, y = validate_data(self, X, y, ensure_all_finite="allow-nan")
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError("y: needs examples of at least two classes, not of one class alone")
        if sample_weight is not None:
            roles = {**roles, "weights": sample_weight}
        one_of_two = len(self.classes_) == 2  # the other one is its opposite
        wanted = self.classes_[1:] if one_of_two else self.classes_
        self.estimators_ = [clone(self.base).fit(X, (y == label).astype(np.int64), **roles) for label in wanted]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, classes)."""
        check_is_fitted(self, "estimators_")
        X = validate_data(self, X, reset=False, ensure_all_finite="allow-nan")
        single = np.column_stack([estimator.predict_proba(X)[:, 1] for estimator in self.estimators_])
        if len(self.estimators_) == 1:
            return np.column_stack([1 - single[:, 0], single[:, 0]])
        total = single.sum(axis=1, keepdims=True)
        return np.where(total > 0, single / np.where(total > 0, total, 1.0), 1 / len(self.classes_))

    def predict(self, X: Any) -> np.ndarray:
        """(n,) classes."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]
