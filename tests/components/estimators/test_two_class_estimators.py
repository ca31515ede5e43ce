"""AdaBoost, operating points of other classifiers, and many classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


@pytest.fixture(scope="module")
def tumours() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return X, y


def test_adaboost_agrees_with_scikit_learns(tumours: Any) -> None:
    X, y = tumours
    ours = make("estimators/adaboost", rounds=20, calibration=0).fit(X, y)
    theirs = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1, random_state=0), n_estimators=20, random_state=0)
    assert (ours.predict(X) == theirs.fit(X, y).predict(X)).mean() >= 0.99
    assert ours.train_error_ == pytest.approx((ours.predict(X) != y).mean(), abs=0.01)


def test_costs_trade_one_error_for_the_other(tumours: Any) -> None:
    X, y = tumours
    errors = []
    for cost in (0.05, 1.0, 20.0):
        found = make("estimators/adaboost", rounds=5, cost_fn=cost, calibration=0).fit(X[::2], y[::2])
        predicted = found.predict(X[1::2])
        errors.append((((predicted == 1) & (y[1::2] == 0)).mean(), ((predicted == 0) & (y[1::2] == 1)).mean()))
    assert errors[0][0] < errors[2][0] and errors[0][1] > errors[2][1]


def test_adaboost_stops_where_z_boosting_goes_on() -> None:
    """A learner of few false positives and many false negatives: its error is above 1/2 where positives weigh more."""
    generator = np.random.default_rng(0)
    y = np.arange(400) < 105
    X = generator.normal(size=(400, 2))
    z = {"type": "box", "fp": 0.04, "fn": 0.6}
    weak = {"type": "z_oracle", "z": z}
    stuck = make("estimators/adaboost", weak=weak, rounds=600, calibration=0).fit(X, y)
    boosted = make("estimators/zboost", weak=weak, z=z, rounds="auto", until="separated", calibration=0).fit(X, y)
    assert stuck.train_error_ > 0.05 and boosted.score(X, y) == 1.0


def test_a_classifier_is_held_at_a_budget(tumours: Any) -> None:
    X, y = tumours
    base = {"type": "sklearn", "name": "LogisticRegression", "preprocessing": ["standard_scaler"]}
    vote = {"type": "budget", "fp_budget": 0.03, "delta": None}
    found = make("estimators/operating_point", base=base, vote=vote, positive=0).fit(X[::2], y[::2])
    scores = found.scores({"num_classes": 2}, X[1::2], y[1::2])
    assert scores["fp"] <= 0.05 and scores["fn"] <= 0.05 and scores["auroc"] > 0.98
    free = make("estimators/sklearn", **{key: value for key, value in base.items() if key != "type"}).fit(
        X[::2], y[::2]
    )
    assert not np.array_equal(free.predict(X), found.predict(X))


@pytest.mark.parametrize("name", ["LinearSVC", "GaussianNB"])
def test_scores_come_from_whatever_a_classifier_tells(name: str, tumours: Any) -> None:
    X, y = tumours
    base = {"type": "sklearn", "name": name, "preprocessing": ["standard_scaler"]}
    found = make("estimators/operating_point", base=base).fit(X, y)
    values = found.vote_scores(X)
    assert values.min() >= 0 and values.max() <= 1 and (found.predict(X) == y).mean() > 0.9


def test_weights_and_boosters_pass_through(tumours: Any) -> None:
    X, y = tumours
    inner = make("estimators/zboost", rounds=20, calibration=0)
    found = make("estimators/operating_point", base=inner, calibration=0.3).fit(X, y)
    assert np.array_equal(found.vote_scores(X), found.base_.vote_scores(X)) and not hasattr(inner, "boosted_")
    heavy = make("estimators/operating_point", base=inner, calibration=0.3).fit(X, y, weights=1.0 + 30 * (X[:, 0] > 15))
    assert not np.array_equal(heavy.vote_scores(X), found.vote_scores(X))


def test_many_classes_are_told_apart() -> None:
    X, y = load_digits(return_X_y=True)
    found = make("estimators/one_vs_rest", base={"type": "zboost", "rounds": 30}).fit(X[::2], y[::2])
    probabilities = found.predict_proba(X[1::2])
    assert probabilities.shape == (898, 10) and probabilities.sum(axis=1) == pytest.approx(1)
    assert (found.predict(X[1::2]) == y[1::2]).mean() > 0.85
    two = make("estimators/one_vs_rest", base={"type": "zboost", "rounds": 10}).fit(X[y < 2], y[y < 2])
    assert len(two.estimators_) == 1 and (two.predict(X[y < 2]) == y[y < 2]).mean() > 0.98
    with pytest.raises(RunError, match="the data's target is a number"):
        found.check({}, {})
    with pytest.raises(ValueError, match="not of one class alone"):
        make("estimators/one_vs_rest", base="zboost").fit(X, np.zeros(len(X)))
