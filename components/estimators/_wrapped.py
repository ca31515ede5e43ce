"""What estimators that stand around others share: scikit-learn's protocol, as far as the one that decides has it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from raycipe.framework.contracts import Estimator

KEPT = ("classes_", "n_features_in_", "feature_names_in_", "n_iter_")


def _has(word: str) -> Any:
    return lambda wrapped: hasattr(wrapped.deciding(), word)


class Wrapped(BaseEstimator, Estimator):  # type: ignore[misc]  # scikit-learn has no types
    """Predicts classes or numbers, with or without probabilities, as the estimator does that decides."""

    @abstractmethod
    def deciding(self) -> Any:
        """The estimator, fitted or not, whose outputs are this one's."""

    @abstractmethod
    def inputs(self, X: Any) -> Any:
        """What the deciding one is given for rows X."""

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.deciding())
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags", "input_tags"):
            setattr(tags, name, getattr(own, name))
        return tags

    def keep_facts_of(self, fitted: Any) -> None:
        """Classes, number and names of features, as scikit-learn tells them of a fitted estimator."""
        for name in KEPT:
            if name in vars(self):
                delattr(self, name)
            if hasattr(fitted, name):
                setattr(self, name, getattr(fitted, name))

    def predict(self, X: Any) -> np.ndarray:
        """(n,) classes or numbers, (n, targets) for several."""
        check_is_fitted(self, "n_features_in_")
        return np.asarray(self.deciding().predict(self.inputs(X)))

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, classes); only where the deciding estimator has it, as in scikit-learn."""
        check_is_fitted(self, "n_features_in_")
        return np.asarray(self.deciding().predict_proba(self.inputs(X)))

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) or (n, classes); only where the deciding estimator has it."""
        check_is_fitted(self, "n_features_in_")
        return np.asarray(self.deciding().decision_function(self.inputs(X)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of classes, R² of numbers."""
        measured = accuracy_score if hasattr(self, "classes_") else r2_score
        return float(measured(y, self.predict(X), sample_weight=sample_weight))
