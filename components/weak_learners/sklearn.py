"""scikit-learn's classifiers as weak learners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from raycipe.components.estimators import _scikit
from raycipe.framework.contracts import Fit, Hypothesis, WeakLearner
from raycipe.framework.registry import register

Value = bool | float | str | None | list[float | str]


@dataclass(frozen=True)
class _Fitted:
    model: Any
    is_soft: bool

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if len(self.model.classes_) == 1:
            return np.full(len(X), float(self.model.classes_[0]))
        found = self.model.predict_proba(X)[:, 1] if self.is_soft else self.model.predict(X)
        return np.asarray(found, dtype=float)


@register
class Sklearn(WeakLearner):
    """A classifier of scikit-learn: small trees, naive Bayes, and whatever else takes weights.

    Args:
        name: the classifier's class in scikit-learn
        arguments: its own parameters, by name
        soft: take its probabilities as hypotheses in [0, 1], not its labels
        resample: draw as many examples by their weights instead of passing the weights on, for what takes none

    Recipe:
        data: breast_cancer
        estimator:
          type: zboost
          weak: {type: sklearn, name: DecisionTreeClassifier, arguments: {max_depth: 2}}
          rounds: 20
    """

    def __init__(
        self,
        name: _scikit.Name,
        arguments: dict[str, Value] = {},  # noqa: B006 (never changed)
        soft: bool = False,
        resample: bool = False,
    ) -> None:
        from sklearn.base import is_classifier
        from sklearn.utils.validation import has_fit_parameter

        self.name = name
        self.arguments = arguments
        self.soft = soft
        self.resample = resample
        model = self._model(0)  # scikit-learn's own range check
        if not is_classifier(model):
            raise ValueError(f"name: {name} predicts numbers, not labels")
        if not resample and not has_fit_parameter(model, "sample_weight"):
            raise ValueError(f"name: {name} takes no weights: set resample: true")
        if soft and not hasattr(type(model), "predict_proba"):
            raise ValueError(f"soft: {name} tells no probabilities")

    def _model(self, seed: int) -> Any:
        return _scikit.make(_scikit.class_of(_scikit.HOMES[self.name], self.name), self.arguments, seed, "arguments")

    def allows_nan(self) -> bool:
        return _scikit.allows_missing([self._model(0)])

    def prepare(self, X: np.ndarray, y: np.ndarray) -> Fit:
        def fit(weights: np.ndarray, generator: np.random.Generator) -> Hypothesis:
            model = self._model(int(generator.integers(2**31)))
            if self.resample:
                drawn = generator.choice(len(y), size=len(y), p=weights / weights.sum())
                return _Fitted(model.fit(X[drawn], y[drawn]), self.soft)
            return _Fitted(model.fit(X, y, sample_weight=weights * len(y)), self.soft)

        return fit
