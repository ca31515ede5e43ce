"""The estimator around Z-boosting: labels, weights, votes, refusals, evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from raycipe.components.estimators._operating import clopper_pearson, platt
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

TRIVIAL = {"type": "box", "fp": 0.3, "fn": 0.3}


@pytest.fixture(scope="module")
def tumours() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return X, y


def zboost(**arguments: Any) -> Any:
    return make("estimators/zboost", **{"rounds": 40, **arguments})


def test_it_finds_the_class_that_is_named(tumours: Any) -> None:
    X, y = tumours
    names = ["malignant", "benign"]
    by_name = zboost(positive="malignant", class_names=names).fit(X[::2], y[::2])
    by_number = zboost(positive=0).fit(X[::2], y[::2])
    assert by_name.positive_ == by_number.positive_ == 0 and zboost().fit(X, y).positive_ == 1
    assert np.array_equal(by_name.predict(X), by_number.predict(X))
    assert roc_auc_score(y[1::2] == 0, by_name.vote_scores(X[1::2])) > 0.97
    assert np.array_equal(by_name.predict_proba(X)[:, 0] > 0.5, by_name.platt_(by_name.vote_scores(X)) > 0.5)
    assert np.array_equal(by_name.decision_function(X) > 0, by_name.predict(X) == 1)


def test_labels_may_be_words(tumours: Any) -> None:
    X, y = tumours
    words = np.array(["bad", "good"])[y]
    found = zboost(positive="bad").fit(X, words)
    assert set(found.predict(X)) == {"bad", "good"} and (found.predict(X) == words).mean() > 0.95


@pytest.mark.parametrize(
    ("arguments", "y", "words"),
    [
        (
            {},
            [0, 1, 2] * 10,
            "y: Only binary classification is supported, and there are 3 classes: take estimators/one_vs_rest",
        ),
        ({"positive": "worst"}, [0, 1] * 15, "positive: no class is named `worst`; there are 0, 1"),
        ({}, [1] * 30, "y: needs examples of two classes, not of one class alone"),
        ({}, [0] * 29 + [1], "calibration: the positive class has 1 example, which can't be in both parts"),
    ],
)
def test_labels_that_are_no_two_classes_are_refused(arguments: dict[str, Any], y: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        zboost(**arguments).fit(np.random.default_rng(0).normal(size=(30, 2)), np.array(y))


def test_weights_count_and_zeros_leave_out(tumours: Any) -> None:
    X, y = tumours
    weights = np.where(np.arange(len(y)) < 300, 1.0, 0.0)
    part = zboost(calibration=0).fit(X[:300], y[:300])
    assert np.array_equal(part.vote_scores(X), zboost(calibration=0).fit(X, y, weights=weights).vote_scores(X))
    heavy = np.where(np.arange(len(y)) % 5 == 0, 20.0, 1.0)
    assert not np.array_equal(zboost().fit(X, y).vote_scores(X), zboost().fit(X, y, weights=heavy).vote_scores(X))
    for bad, words in ((-1.0, "not negative"), (np.nan, "NaN")):
        with pytest.raises(ValueError, match=words):
            zboost().fit(X, y, weights=np.where(y == 0, bad, 1.0))
    with pytest.raises(ValueError, match="the negative class has no weight at all"):
        zboost().fit(X, y, weights=np.where(y == 0, 0.0, 1.0))


def test_a_trivial_promise_is_refused_with_its_coin_unless_forced(tumours: Any) -> None:
    X, y = tumours
    with pytest.raises(
        RunError, match=r"z is trivial: a coin keeps this promise[\s\S]*at label mass 0.50 the coin has"
    ):
        zboost(z=TRIVIAL).fit(X, y)
    forced = zboost(z=TRIVIAL, force=True, weak={"type": "z_oracle", "z": TRIVIAL, "fractional": True}).fit(X, y)
    assert forced.evidence().values["separated"] == 0 and forced.n_iter_ == 0
    assert np.all(forced.vote_scores(X) == 0.5)


def test_a_promise_that_can_not_occur_is_refused(tumours: Any) -> None:
    with pytest.raises(RunError, match="z holds no pair that can occur"):
        zboost(z={"type": "polygon", "vertices": [[0.8, 0.8]]}).fit(*tumours)


def test_a_broken_promise_ends_the_fit_or_starts_the_search(tumours: Any) -> None:
    X, y = tumours
    arguments = {"z": {"type": "box", "fp": 0.01, "fn": 0.01}, "weak": "stump"}
    with pytest.raises(RunError, match=r"the learner broke its promise in round \d+: \|tpr - fpr\|"):
        zboost(**arguments, on_violation="error").fit(X, y)
    adapted = zboost(**arguments).fit(X, y).evidence()
    assert adapted.values["violations"] == 1 and "broke its promise 1 times" in adapted.text["verdict"]
    counted = zboost(**arguments, on_violation="warn").fit(X, y).evidence()
    assert counted.values["violations"] > 1


def test_going_on_widens_margins(tumours: Any) -> None:
    X, y = tumours
    first = zboost(until="separated", rounds=100).fit(X, y)
    second = zboost(rounds=100).fit(X, y)
    assert first.n_iter_ == first.boosted_.separated_at < second.n_iter_ == 100
    assert first.boosted_.rounds == second.boosted_.rounds[: first.n_iter_]


def test_rows_that_contradict_each_other_bound_the_errors() -> None:
    X = np.repeat(np.arange(20.0), 5)[:, None]
    y = np.tile([1, 1, 1, 0, 0], 20)
    found = zboost(calibration=0).fit(X, y)
    assert found.evidence().values["least_error"] == pytest.approx(0.4)
    assert not found.boosted_.is_separated


def test_few_examples_of_a_class_are_told() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.warns(UserWarning, match="one of the classes has 6 training examples"):
        zboost(calibration=0).fit(X, np.arange(60) < 6)


def test_the_automatic_number_of_rounds_is_the_bound(tumours: Any) -> None:
    X, y = tumours
    z = {"type": "box", "fp": 0.1, "fn": 0.3}
    weak = {"type": "z_oracle", "z": z}
    found = zboost(z=z, weak=weak, rounds="auto", until="separated", calibration=0).fit(X, y)
    values = found.evidence().values
    assert values["separated"] == 1 and values["rounds"] <= values["round_bound"] == found.bound_
    assert found.score(X, y) == 1.0
    with pytest.raises(ValueError, match="rounds: auto is the bound of a known z"):
        zboost(rounds="auto")


def test_what_it_found_is_told_round_by_round(tumours: Any) -> None:
    X, y = tumours
    found = zboost(p=[0.3, 0.5]).fit(X, y)
    evidence = found.evidence()
    assert len(evidence.tables["rounds"]) == 40 and len(evidence.tables["queries"]) == 80
    assert all(row["bound"] > 0 and row["queries"] == 2 for row in evidence.tables["rounds"])
    assert "its abstract" in evidence.text["verdict"] and set(evidence.values) <= set(type(found).reports)
    stages = found.staged_vote_scores(X)
    assert stages.shape == (40, len(y)) and np.allclose(stages[-1], found.vote_scores(X))
    assert len(evidence.figures["rounds"]().axes) == 2


def test_scores_are_joint_masses_with_intervals(tumours: Any) -> None:
    X, y = tumours
    found = zboost(positive=0).fit(X[::2], y[::2])
    facts = {"num_classes": 2}
    scores = found.scores(facts, X[1::2], y[1::2])
    predicted = found.predict(X[1::2])
    assert scores["fp"] == pytest.approx(((predicted == 0) & (y[1::2] == 1)).mean())
    assert scores["accuracy"] == pytest.approx(1 - scores["fp"] - scores["fn"])
    assert scores["fn_low"] <= scores["fn"] <= scores["fn_high"] and scores["undecided"] == 0
    assert scores["fnr"] == pytest.approx(scores["fn"] / (y[1::2] == 0).mean())


def test_undecided_examples_stay_open(tumours: Any) -> None:
    X, y = tumours
    vote = {"type": "two_threshold", "fp_budget": 0.005, "fn_budget": 0.002, "delta": None}
    found = zboost(vote=vote, rounds=10).fit(X, y)
    sets = found.predict_sets(X)
    assert sets.any(axis=1).all() and sets.all(axis=1).any()
    decided = sets.sum(axis=1) == 1
    assert np.array_equal(found.classes_[sets[decided].argmax(axis=1)], found.predict(X)[decided])


def test_intervals_and_calibration_have_their_known_values() -> None:
    assert clopper_pearson(0, 10) == (0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    assert clopper_pearson(10, 10) == (pytest.approx(0.025 ** (1 / 10)), 1.0)
    generator = np.random.default_rng(0)
    scores = generator.uniform(size=20_000)
    y = generator.random(20_000) < 1 / (1 + np.exp(-(6 * scores - 2)))
    found = platt(scores, y, np.ones(20_000))
    assert found.slope == pytest.approx(6, abs=0.3) and found.shift == pytest.approx(-2, abs=0.2)


@pytest.mark.parametrize(
    ("facts", "train", "words"),
    [
        ({"missing": {"num_classes": "take regression"}}, {}, "the data's target is a number"),
        ({"num_classes": 2}, {"y": np.zeros(4)}, "`train`: y: needs examples of two classes"),
        ({"num_classes": 2}, {"X": np.full((4, 1), np.nan)}, "`train` has missing values"),
    ],
)
def test_data_that_can_not_be_fitted_are_told_before(facts: Any, train: Any, words: str) -> None:
    with pytest.raises(RunError, match=words):
        zboost().check(facts, {"train": {"X": np.zeros((4, 1)), "y": np.arange(4) % 2, **train}})
