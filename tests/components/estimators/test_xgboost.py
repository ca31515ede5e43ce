"""XGBoost as an estimator: classes by their own labels, numbers, weights, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from xgboost import XGBClassifier

from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def xgboost(**arguments: Any) -> Any:
    return make("estimators/xgboost", **{"rounds": 20, "max_depth": 2, **arguments})


def test_it_is_xgboost_with_labels_of_any_kind() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    found = xgboost().fit(X, np.array(["bad", "good"])[y])
    plain = XGBClassifier(n_estimators=20, max_depth=2, learning_rate=0.3, random_state=0, n_jobs=1).fit(X, y)
    assert np.array_equal(found.predict(X), np.array(["bad", "good"])[plain.predict(X)])
    assert np.allclose(found.predict_proba(X), plain.predict_proba(X), atol=1e-6)


def test_weights_and_missing_values_are_taken() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    even, heavy = xgboost().fit(X, y), xgboost(positive_weight=10).fit(X, y)
    assert heavy.predict_proba(X)[:, 1].mean() > even.predict_proba(X)[:, 1].mean()
    weighted = xgboost().fit(X, y, weights=np.where(y == 1, 10.0, 1.0))
    assert weighted.predict_proba(X)[:, 1].mean() > even.predict_proba(X)[:, 1].mean()


def test_numbers_are_regressed() -> None:
    X, y = load_diabetes(return_X_y=True)
    found = xgboost().fit(X, y)
    assert not hasattr(found, "classes_") and not hasattr(found, "predict_proba") and found.score(X, y) > 0.5


def test_what_it_can_not_fit_is_told() -> None:
    with pytest.raises(ValueError, match="not of one class alone"):
        xgboost().fit(np.zeros((4, 1)), np.zeros(4, dtype=int))
    with pytest.raises(RunError, match="the data's target is a number, and estimator.target says class"):
        xgboost(target="class").check({}, {})
