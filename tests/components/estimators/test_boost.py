"""Boosting on plain arrays: steps, bounds, and adversaries that keep their promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from raycipe.components.estimators import _boost as boosting
from raycipe.components.estimators._masses import Adaptive, Among, by_halves, grid
from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.registry import build, make

ASYMMETRIC = [
    {"type": "halfplane", "weights": [1, 3], "bound": 0.7},
    {"type": "box", "fp": 0.04, "fn": 0.6},
    {"type": "box", "fp": 0.5, "fn": 0.05},
]
BALANCED = {"type": "halfplane", "weights": [1, 1], "bound": 0.4}
TRIVIAL = {"type": "box", "fp": 0.25, "fn": 0.25}


def names(z: dict[str, Any]) -> str:
    return "-".join(str(value) for value in z.values())


@pytest.fixture(scope="module")
def sample() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y, weights: 105 positives of 400."""
    generator = np.random.default_rng(0)
    y = np.arange(400) < 105
    generator.shuffle(y)
    return generator.normal(size=(400, 2)), y, np.ones(400)


def run(sample: Any, z: dict[str, Any], search: Any, **options: Any) -> boosting.Boosted:
    X, y, weights = sample
    oracle = make("weak_learners/z_oracle", z=z, fractional=options.get("step") == "rank")
    settings = {"rounds": 1000, "until": "separated", **options}
    return boosting.boost(X, y, weights, oracle.prepare(X, y), search, **settings)


def test_exact_and_rank_steps_at_hand_computed_values() -> None:
    """tpr 0.7, fpr 0.2; m is so large that the smoothing does not show."""
    h, uniform = np.array([1.0] * 7 + [0.0] * 3), np.full(10, 0.1)
    g = np.array([1.0] * 2 + [0.0] * 8)
    values, positive = np.concatenate([h, g]), np.concatenate([uniform, np.zeros(10)])
    negative = positive[::-1].copy()
    exact = boosting.step_size(values, positive, negative, m=10**9)
    assert exact == pytest.approx(1.116796, abs=1e-6)
    assert boosting.shrinkage(values, positive, negative, exact) == pytest.approx(0.746607, abs=1e-6)
    rank = boosting.step_size(values, positive, negative, m=20, step="rank")
    assert rank == pytest.approx(0.549306, abs=1e-6)
    assert (
        boosting.shrinkage(values, positive, negative, rank)
        <= math.sqrt(1 - 0.5**2)
        == pytest.approx(0.866025, abs=1e-6)
    )
    hedge = boosting.step_size(values, positive, negative, m=20, rounds=50, step="hedge")
    assert hedge == pytest.approx(math.sqrt(8 * math.log(20) / 50))


def test_the_exact_step_of_soft_hypotheses_is_the_minimum() -> None:
    generator = np.random.default_rng(0)
    y = np.arange(40) < 15
    h = np.clip(0.5 + 0.2 * (2 * y - 1) + 0.3 * generator.normal(size=40), 0, 1)
    D = generator.uniform(size=40)
    positive, negative = np.where(y, D, 0) / D[y].sum(), np.where(y, 0, D) / D[~y].sum()
    best = boosting.step_size(h, positive, negative, m=40)
    around = [boosting.shrinkage(h, positive, negative, best + shift) for shift in (-1e-3, 0, 1e-3)]
    assert around[1] <= min(around) and 0 < best < boosting.MAX_STEP
    assert around[1] <= boosting.shrinkage(
        h, positive, negative, boosting.step_size(h, positive, negative, 40, step="rank")
    )


def test_a_perfect_hypothesis_ends_it_alone() -> None:
    y = np.arange(20) < 5
    fit = lambda weights, generator: lambda X: y.astype(float)  # noqa: E731
    found = boosting.boost(np.zeros((20, 1)), y, np.ones(20), fit, Among([0.5]), rounds=50)
    assert len(found.rounds) == 1 and found.stop == "separated" and found.rounds[0].alpha <= boosting.MAX_STEP


@pytest.mark.parametrize("z", [BALANCED, *ASYMMETRIC], ids=names)
def test_known_promises_separate_within_the_bound(sample: Any, z: dict[str, Any]) -> None:
    test = geometry.boostability(build(z, "z_sets").pieces())
    found = run(sample, z, Among([test.p_star]))
    assert found.is_separated and len(found.rounds) <= boosting.rounds_bound(sample[2], sample[1], test.gamma)
    assert min(each.edge for each in found.rounds) >= test.gamma - 1e-9
    assert min(each.edge for each in found.rounds) == pytest.approx(test.gamma, abs=0.02)


@pytest.mark.parametrize("z", ASYMMETRIC, ids=names)
def test_at_label_mass_one_half_a_lopsided_promise_is_of_no_use(sample: Any, z: dict[str, Any]) -> None:
    found = run(sample, z, Among([0.5]))
    assert found.stop == "stalled" and not found.rounds


@pytest.mark.parametrize("z", ASYMMETRIC, ids=names)
def test_the_search_finds_a_useful_label_mass_without_the_promise(sample: Any, z: dict[str, Any]) -> None:
    test = geometry.boostability(build(z, "z_sets").pieces())
    search = Adaptive()
    found = run(sample, z, search)
    ((low, high),) = test.allowed
    assert found.is_separated and low < search.active < high
    known = run(sample, z, Among([test.p_star]))
    assert len(found.asked) <= 10 * len(known.asked)


def test_the_best_of_a_list_separates_where_one_of_it_is_useful(sample: Any) -> None:
    found = run(sample, ASYMMETRIC[2], Among([0.1, 0.25, 0.5, 0.75, 0.9]))
    assert found.is_separated and sum(each.p == 0.25 for each in found.rounds) > 0.7 * len(found.rounds)


def test_a_trivial_promise_never_separates(sample: Any) -> None:
    for search in (Among([0.5]), Among([0.1, 0.3, 0.7]), Adaptive()):
        assert not run(sample, TRIVIAL, search, rounds=150, step="rank").is_separated


def test_always_worse_than_a_coin_is_as_good_as_better(sample: Any) -> None:
    found = run(sample, {"type": "halfplane", "weights": [-1, -1], "bound": -0.6}, Among([0.5]))
    assert found.is_separated and all(each.is_flipped for each in found.rounds)


def test_the_product_of_factors_bounds_the_pair_loss_at_every_round(sample: Any) -> None:
    X, y, _ = sample
    weights = np.random.default_rng(1).uniform(0.2, 3, len(y))
    fit = make("weak_learners/stump").prepare(X, y)
    found = boosting.boost(X, y, weights, fit, Among([0.5]), rounds=40)
    for stage, each in zip(found.staged(X), found.rounds, strict=True):
        assert boosting.pair_loss(stage, y, weights) <= each.bound + 1e-12
    assert np.allclose(found.staged(X)[-1], found.train_scores) and np.allclose(found.scores(X), found.train_scores)


def test_the_order_of_examples_changes_nothing(sample: Any) -> None:
    X, y, _ = sample
    order = np.random.default_rng(2).permutation(len(y))
    weights = np.random.default_rng(1).uniform(0.2, 3, len(y))
    learner = make("weak_learners/stump")
    first = boosting.boost(X, y, weights, learner.prepare(X, y), Among([0.5]), rounds=20)
    fit = learner.prepare(X[order], y[order])
    second = boosting.boost(X[order], y[order], weights[order], fit, Among([0.5]), rounds=20)
    np.testing.assert_allclose(first.scores(X), second.scores(X), rtol=1e-9)


def test_a_broken_promise_is_counted_and_told(sample: Any) -> None:
    told = []

    def on_broken(number: int, query: Any) -> Adaptive:
        told.append((number, query.edge))
        return Adaptive()

    found = run(sample, ASYMMETRIC[0], Among([0.5]), promised=0.2, on_broken=on_broken)
    assert told == [(0, pytest.approx(0))] and found.violations == 1 and found.is_separated
    assert run(sample, BALANCED, Among([0.5]), promised=0.2).violations == 0
    assert run(sample, BALANCED, Among([0.5]), promised=0.25, rounds=5).violations == 5


def test_pair_loss_is_the_share_of_badly_ordered_pairs() -> None:
    y = np.array([True, True, False, False])
    assert boosting.pair_loss(np.array([0.9, 0.2, 0.1, 0.2]), y) == 1 / 4  # 0.2 against 0.2
    assert boosting.pair_loss(np.array([0.9, 0.2, 0.1, 0.2]), y, np.array([1, 3, 1, 1])) == 3 / 8
    assert boosting.pair_loss(np.zeros(4), y) == 1


def test_scores_far_apart_do_not_overflow() -> None:
    y = np.arange(6) < 3
    positive, negative = boosting.distributions(
        np.where(y, [0, 5, 5000, 0, 0, 0], [0, 0, 0, 0, 4000, 1]), y, np.full(6, 1 / 3)
    )
    assert positive == pytest.approx([1 / (1 + math.exp(-5)), math.exp(-5) / (1 + math.exp(-5)), 0, 0, 0, 0])
    assert negative == pytest.approx([0, 0, 0, 0, 1, 0])


def test_a_failing_learner_is_told_with_its_round() -> None:
    def fit(weights: np.ndarray, generator: np.random.Generator) -> Any:
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError) as failure:
        boosting.boost(np.zeros((4, 1)), np.arange(4) < 2, np.ones(4), fit, Among([0.25]), rounds=3)
    assert failure.value.__notes__ == ["the weak learner failed in round 0 at label mass 0.25"]
    with pytest.raises(ValueError, match=r"must give \(4,\) numbers in \[0, 1\]"):
        boosting.boost(
            np.zeros((4, 1)),
            np.arange(4) < 2,
            np.ones(4),
            lambda w, g: lambda X: np.full(4, 2.0),
            Among([0.25]),
            rounds=3,
        )


def test_grids_begin_in_the_middle_and_reach_far_enough() -> None:
    assert by_halves(7) == [3, 1, 5, 0, 2, 4, 6]
    for phase in (1, 3):
        masses = grid(phase)
        logits = np.sort(np.log(masses) - np.log1p(-np.array(masses)))
        assert masses[0] == 0.5 and logits[-1] >= 2 + phase * math.log(2) and len(set(masses)) == len(masses)
        assert np.allclose(np.diff(logits), 2.0**-phase / 4)


def test_the_bound_counts_weights() -> None:
    y = np.arange(5) < 2
    assert boosting.rounds_bound(np.ones(5), y, 0.5) == math.ceil(2 * math.log(6) / 0.25)
    assert boosting.rounds_bound(np.array([1, 3, 1, 1, 1]), y, 0.5) == math.ceil(2 * math.log(12) / 0.25)
