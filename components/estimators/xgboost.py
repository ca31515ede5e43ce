"""Gradient-boosted trees of XGBoost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from sklearn.utils.metaestimators import available_if
from xgboost import XGBClassifier, XGBRegressor

from raycipe.components.estimators._wrapped import Wrapped
from raycipe.framework.arguments import Count, NonNegative, Positive, Range, Share
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register

Target = Literal["auto", "class", "number"]


@register
class Xgboost(Wrapped):
    """Gradient-boosted trees, second-order, on histograms; classes or numbers. Missing values are allowed.

    F += learning_rate · tree, each tree the minimum of sum_i g_i f(x_i) + h_i f(x_i)² / 2 + l2 |leaves|² / 2 over the
    gradients g and curvatures h of the loss. One thread.

    Args:
        rounds: number of trees (of each class, for more than two)
        max_depth: of a tree; 1 is a stump
        learning_rate: how much of each tree is added
        l2: penalty on leaf values
        subsample: share of the examples that each tree sees
        columns: share of the features that each tree sees
        positive_weight: of the second of two classes: makes up for imbalance
        target: class, number, or auto: whole numbers are classes

    Reference:
        T. Chen, C. Guestrin, XGBoost: A Scalable Tree Boosting System, KDD 2016.

    Recipe:
        data: breast_cancer
        estimator: {type: xgboost, rounds: 50, max_depth: 3}
    """

    given: ClassVar[tuple[str, ...]] = ("seed",)

    def __init__(
        self,
        rounds: Count = 200,
        max_depth: Annotated[int, Range(ge=1, le=64)] = 6,
        learning_rate: Positive = 0.3,
        l2: NonNegative = 1.0,
        subsample: Share = 1.0,
        columns: Share = 1.0,
        positive_weight: Positive = 1.0,
        target: Target = "auto",
        seed: int = 0,
    ) -> None:
        self.rounds = rounds
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.l2 = l2
        self.subsample = subsample
        self.columns = columns
        self.positive_weight = positive_weight
        self.target = target
        self.seed = seed

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        wanted = "class" if "num_classes" in facts else "number"
        if self.target not in ("auto", wanted):
            message = f"the data's target is a {wanted}, and estimator.target says {self.target}"
            raise RunError("recipe", message, "leave target out", "estimator.target")

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **roles: Any) -> Any:
        """X (n, d), y (n,) or (n, targets); weights (n,) as `sample_weight`, or as the role `weights`."""
        y = np.asarray(y)
        is_class = self.target == "class" or (self.target == "auto" and y.dtype.kind not in "f")
        self.fitted_ = self._model(is_class)
        if is_class:
            self.classes_, codes = np.unique(y, return_inverse=True)
            if len(self.classes_) < 2:
                raise ValueError("y: needs examples of at least two classes, not of one class alone")
        self.fitted_.fit(X, codes if is_class else y, sample_weight=roles.get("weights", sample_weight))
        self.n_features_in_ = self.fitted_.n_features_in_
        return self

    def _model(self, is_class: bool) -> Any:
        settings: dict[str, Any] = {
            "n_estimators": self.rounds,
            "max_depth": self.max_depth,
            "learning_rate": self.learning_rate,
            "reg_lambda": self.l2,
            "subsample": self.subsample,
            "colsample_bytree": self.columns,
            "random_state": self.seed,
            "tree_method": "hist",
            "n_jobs": 1,
        }
        if not is_class:
            return XGBRegressor(**settings)
        weight = {} if self.positive_weight == 1 else {"scale_pos_weight": self.positive_weight}
        return XGBClassifier(**settings, **weight)

    def deciding(self) -> Any:
        return vars(self).get("fitted_") or self._model(self.target != "number")

    @available_if(lambda wrapped: hasattr(wrapped.deciding(), "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, classes), float64 with rows that sum to 1, which XGBoost's float32 do not."""
        found = super().predict_proba(X).astype(np.float64)
        return found / found.sum(axis=1, keepdims=True)

    def inputs(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> np.ndarray:
        """(n,) classes or numbers, (n, targets) for several."""
        found = super().predict(X)
        return self.classes_[found.astype(np.int64)] if hasattr(self, "classes_") else found
