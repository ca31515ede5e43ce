"""Weak learners: the best of what they can say, failures, and adversaries that keep their promise exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raycipe.components.weak_learners import z_oracle
from raycipe.components.weak_learners._pairs import pair, part_of
from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.errors import RunError
from raycipe.framework.registry import build, make


def problem(n: int = 60, seed: int = 0, mass: float = 0.4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = np.round(generator.normal(size=(n, 3)), 1)  # with ties
    y = X[:, 1] + 0.5 * generator.normal(size=n) > 0.2
    w = generator.uniform(0.1, 1, n)
    return X, y, np.where(y, mass * w / w[y].sum(), (1 - mass) * w / w[~y].sum())


def fit(learner: Any, X: np.ndarray, y: np.ndarray, weights: np.ndarray, seed: int = 0) -> Any:
    return learner.prepare(X, y)(weights, np.random.default_rng(seed))


def error(values: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    return float(pair(values, y, weights).sum())


@pytest.mark.parametrize("seed", range(5))
def test_a_stump_is_the_best_of_all_stumps(seed: int) -> None:
    X, y, weights = problem(seed=seed)
    found = error(fit(make("weak_learners/stump"), X, y, weights)(X), y, weights)
    errors = [error((X[:, j] > t).astype(float), y, weights) for j in range(3) for t in np.unique(X[:, j])[:-1]]
    assert found == pytest.approx(min(min(errors), 1 - max(errors)), abs=1e-12)


def test_a_stump_of_constant_features_says_nothing() -> None:
    y = np.arange(10) < 5
    stump = fit(make("weak_learners/stump"), np.ones((10, 2)), y, np.full(10, 0.1))
    assert np.array_equal(stump(np.zeros((3, 2))), [0.5] * 3)


def test_a_threshold_between_neighbouring_floats_tells_them_apart() -> None:
    X = np.array([[1.0], [np.nextafter(1.0, 2.0)]])
    stump = fit(make("weak_learners/stump"), X, np.array([False, True]), np.array([0.5, 0.5]))
    assert stump(X).tolist() == [0.0, 1.0]


def test_bins_limit_the_thresholds() -> None:
    X, y, weights = problem(n=500)
    few = make("weak_learners/stump", max_bins=4)
    prepared = {fit(few, X, y, np.roll(weights, k)).threshold for k in range(0, 500, 10)}
    assert len(prepared) <= 3 * 3
    assert (
        error(fit(few, X, y, weights)(X), y, weights)
        <= error(fit(make("weak_learners/stump"), X, y, weights)(X), y, weights) + 0.1
    )


def test_blocks_of_features_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, weights = problem()
    whole = fit(make("weak_learners/stump"), X, y, weights)
    monkeypatch.setattr("raycipe.components.weak_learners.stump.BLOCK", 60)
    assert fit(make("weak_learners/stump"), X, y, weights) == whole


def test_a_linear_threshold_beats_stumps_on_a_slope() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 2))
    y, weights = X.sum(axis=1) > 0.3, np.full(200, 1 / 200)
    assert error(fit(make("weak_learners/linear_threshold"), X, y, weights)(X), y, weights) < 0.03
    assert error(fit(make("weak_learners/stump"), X, y, weights)(X), y, weights) > 0.15


def test_rules_give_the_best_of_the_list() -> None:
    X, y, weights = problem()
    rules = [{"feature": 0, "above": 0.0}, {"feature": "b", "above": 0.2}]
    found = fit(make("weak_learners/rules", rules=rules, feature_names=["a", "b", "c"]), X, y, weights)
    assert (found.feature, found.threshold) == (1, 0.2)
    for feature, words in ((7, "there is no feature 7"), ("bb", r"no feature `bb`\n.*did you mean `b`")):
        with pytest.raises(RunError, match=words):
            fit(
                make("weak_learners/rules", rules=[{"feature": feature, "above": 0}], feature_names=["a", "b"]),
                X,
                y,
                weights,
            )


def test_classifiers_of_scikit_learn_take_weights_or_samples() -> None:
    X, y, weights = problem(n=200)
    tree = make("weak_learners/sklearn", name="DecisionTreeClassifier", arguments={"max_depth": 2})
    assert (
        error(fit(tree, X, y, weights)(X), y, weights)
        <= error(fit(make("weak_learners/stump"), X, y, weights)(X), y, weights) + 0.02
    )
    neighbours = make("weak_learners/sklearn", name="KNeighborsClassifier", resample=True)
    assert error(fit(neighbours, X, y, weights)(X), y, weights) < 0.3
    soft = fit(make("weak_learners/sklearn", name="GaussianNB", soft=True), X, y, weights)(X)
    assert ((soft > 0) & (soft < 1)).any()
    for arguments, words in (
        ({"name": "KNeighborsClassifier"}, "name: KNeighborsClassifier takes no weights: set resample: true"),
        ({"name": "Ridge"}, "name: Ridge predicts numbers"),
        ({"name": "Perceptron", "soft": True}, "soft: Perceptron tells no probabilities"),
        ({"name": "GaussianNB", "arguments": {"depth": 1}}, "arguments: GaussianNB has no `depth`"),
    ):
        with pytest.raises(ValueError, match=words):
            make("weak_learners/sklearn", **arguments)
    assert make("weak_learners/sklearn", name="DecisionTreeClassifier").allows_nan()


@pytest.mark.parametrize("failure", ["uniform", "adversarial"])
def test_a_flaky_learner_fails_as_often_as_it_says(failure: str) -> None:
    X, y, weights = problem()
    good = fit(make("weak_learners/stump"), X, y, weights)(X)
    learner = make("weak_learners/flaky", base="stump", success=0.7, failure=failure).prepare(X, y)
    values = [learner(weights, np.random.default_rng(seed))(X) for seed in range(400)]
    share = np.mean([np.array_equal(each, good) for each in values])
    assert share == pytest.approx(0.7, abs=3 * np.sqrt(0.21 / 400))
    others = [each for each in values if not np.array_equal(each, good)]
    expected = {"uniform": lambda each: len(set(each)) == 1, "adversarial": lambda each: np.array_equal(each, 1 - good)}
    assert all(map(expected[failure], others))


@pytest.mark.parametrize("adversary", ["worst", "random"])
@pytest.mark.parametrize(
    "z", [{"type": "box", "fp": 0.1, "fn": 0.3}, {"type": "halfplane", "weights": [-1, -1], "bound": -0.6}]
)
def test_an_oracle_keeps_its_promise(z: dict[str, Any], adversary: str) -> None:
    pieces = build(z, "z_sets").pieces()
    for fractional in (False, True):
        oracle = make("weak_learners/z_oracle", z=z, adversary=adversary, fractional=fractional)
        for seed in range(5):
            X, y, weights = problem(seed=seed, mass=0.5)
            found = pair(fit(oracle, X, y, weights, seed)(X), y, weights)
            assert geometry.slack(pieces, found)[0] >= -1e-9


def test_a_fractional_oracle_meets_the_nearest_point_exactly() -> None:
    z = {"type": "box", "fp": 0.1, "fn": 0.3}
    X, y, weights = problem(mass=0.634)
    found = pair(fit(make("weak_learners/z_oracle", z=z, fractional=True), X, y, weights)(X), y, weights)
    assert found == pytest.approx([0.1, 0.3], abs=1e-12)


def test_an_oracle_is_a_coin_where_z_holds_one() -> None:
    z = {"type": "halfplane", "weights": [1, 3], "bound": 0.7}
    for mass in (0.1, 0.5, 0.9):
        points = z_oracle.rim(build(z, "z_sets").pieces(), mass)
        assert np.abs(geometry.coin_gap(points, mass)).min() < 1e-12
        assert (points <= np.array([1 - mass, mass]) + 1e-12).all()


def test_an_oracle_answers_unknown_rows_like_the_nearest_known_one() -> None:
    X, y, weights = problem()
    hypothesis = fit(make("weak_learners/z_oracle", z={"type": "box", "fp": 0.1, "fn": 0.3}), X, y, weights)
    rows = np.unique(X, axis=0, return_index=True)[1][:20]
    assert np.array_equal(hypothesis(X[rows] + 1e-6), hypothesis(X[rows].copy()))


def test_parts_keep_the_label_mass() -> None:
    _, y, weights = problem(mass=0.4)
    chosen = np.arange(len(y)) % 3 > 0
    found = part_of(weights, y, chosen)
    assert found.sum() == pytest.approx(1) and found[y].sum() == pytest.approx(0.4) and not found[~chosen].any()
    with pytest.raises(ValueError, match="holdout: a label has no weight"):
        part_of(weights, y, ~y)
