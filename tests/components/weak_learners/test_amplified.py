"""Centerpoints, their mixtures, and how often amplified learners keep a promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from raycipe.components.weak_learners import _centerpoint as centerpoints
from raycipe.components.weak_learners._pairs import pair
from raycipe.components.weak_learners.amplified import copies_needed, measured_to
from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.contracts import TensorSplit, Trained
from raycipe.framework.registry import build, make

TRIANGLE = build({"type": "halfplane", "weights": [1, 1], "bound": 0.4}, "z_sets").pieces()
BOX = build({"type": "box", "fp": 0.1, "fn": 0.3}, "z_sets").pieces()


def poorest(points: np.ndarray, center: np.ndarray) -> int:
    """The fewest points in a half-plane through the center, over a fine turn."""
    angles = np.linspace(0, 2 * np.pi, 3601)
    u = np.column_stack([np.cos(angles), np.sin(angles)])
    return int(((points - center) @ u.T >= -1e-9).sum(axis=0).min())


@pytest.mark.parametrize("k", [15, 30, 61])
def test_a_centerpoint_lies_a_third_deep_and_is_a_mixture_of_three(k: int) -> None:
    generator = np.random.default_rng(k)
    points = generator.uniform(size=(k, 2))
    found = centerpoints.centerpoint(points, generator)
    assert found.depth >= math.ceil(k / 3) and poorest(points, found.point) >= math.ceil(k / 3)
    assert (found.weights > 0).sum() <= 3 and found.weights.sum() == pytest.approx(1)
    assert found.weights @ points == pytest.approx(found.point, abs=1e-12)


def test_the_middle_of_a_triangle_is_its_centerpoint() -> None:
    points = np.array([[0, 0], [1, 0], [0, 1], [1 / 3, 1 / 3]])
    found = centerpoints.centerpoint(points, np.random.default_rng(0))
    assert found.point == pytest.approx([1 / 3, 1 / 3], abs=1e-6) and found.depth == 2


def test_many_points_are_looked_at_in_a_sample_of_directions() -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(400, 2))
    found = centerpoints.centerpoint(points, generator)
    assert found.depth >= 400 / 3 and np.abs(found.point).max() < 0.3


def test_coinciding_points_are_one_place() -> None:
    found = centerpoints.centerpoint(np.tile([[0.2, 0.1]], (9, 1)), np.random.default_rng(0))
    assert found.point == pytest.approx([0.2, 0.1]) and found.depth == 9


def test_a_downward_centerpoint_is_below_the_medians() -> None:
    generator = np.random.default_rng(1)
    points = generator.uniform(size=(31, 2)) ** 2
    found = centerpoints.centerpoint(points, generator, downward=True)
    for angle in np.linspace(0, np.pi / 2, 50):
        u = np.array([np.cos(angle), np.sin(angle)])
        assert u @ found.point <= np.sort(points @ u)[15] + 1e-6  # at most the upper median
    assert found.depth >= 16


def triangle_clusters(generator: np.random.Generator, k: int) -> np.ndarray:
    """q = 0.72 of the copies keep FP + FN <= 0.4, in two far corners."""
    u = generator.random(k)[:, None]
    return np.where(u < 0.36, [0.4, 0.0], np.where(u < 0.72, [0.0, 0.4], [0.4, 0.4]))


def box_clusters(generator: np.random.Generator, k: int) -> np.ndarray:
    """q = 0.75 of the copies keep the box; the others lie in two places beyond."""
    good = generator.uniform(size=(k, 2)) * [0.1, 0.3]
    bad = np.where(generator.random((k, 1)) < 0.5, [0.5, 0.2], [0.1, 0.9])
    return np.where(generator.random((k, 1)) < 0.75, good, bad)


def share(points_of: Any, pieces: Any, rule: Any, k: int, trials: int) -> float:
    kept = 0
    for seed in range(trials):
        generator = np.random.default_rng(seed)
        kept += geometry.slack(pieces, rule(points_of(generator, k), generator))[0] >= -1e-6
    return kept / trials


@pytest.mark.parametrize("trials", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_amplified_shares_keep_what_the_theorem_promises(trials: int) -> None:
    """Allowed: three deviations of the share at so many trials."""
    from scipy.stats import binom

    def deep(points: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return centerpoints.centerpoint(points, generator).point

    def down(points: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return centerpoints.centerpoint(points, generator, downward=True).point

    for k in (15,) if trials < 100 else (15, 31):
        spare = 3 * math.sqrt(0.25 / trials)
        promised = float(binom.sf(math.floor(2 * k / 3), k, 0.72))
        assert share(triangle_clusters, TRIANGLE, deep, k, trials) >= promised - spare
        assert share(triangle_clusters, TRIANGLE, down, k, trials) >= 0.95
        assert share(triangle_clusters, TRIANGLE, lambda z, g: z.mean(axis=0), k, trials) <= 0.4
        assert share(triangle_clusters, TRIANGLE, lambda z, g: np.median(z, axis=0), k, trials) <= 0.6
    assert share(box_clusters, BOX, deep, 15, trials) >= 0.98 - 0.1
    assert share(box_clusters, BOX, lambda z, g: z.mean(axis=0), 15, trials) <= 0.4


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 2))
    return X, X[:, 0] > 0.3, np.full(200, 1 / 200)


def test_a_flaky_learner_becomes_a_reliable_one() -> None:
    X, y, weights = problem()
    flaky = {"type": "flaky", "base": "stump", "success": 0.75, "failure": "adversarial"}
    single = build(flaky, "weak_learners").prepare(X, y)
    whole = make("weak_learners/amplified", base=flaky, success=0.75, copies=31).prepare(X, y)
    errors = {
        name: [float(pair(fit(weights, np.random.default_rng(s))(X), y, weights).sum()) for s in range(40)]
        for name, fit in (("single", single), ("amplified", whole))
    }
    assert np.mean(np.array(errors["single"]) > 0.1) > 0.1
    assert np.mean(np.array(errors["amplified"]) > 0.1) <= 0.025


def test_selection_takes_the_copy_deepest_inside_the_promise() -> None:
    X, y, weights = problem()
    z = {"type": "box", "fp": 0.1, "fn": 0.1}
    base = {"type": "flaky", "base": "stump", "success": 0.3}
    learner = make("weak_learners/amplified", base=base, by="select", z=z, success=0.3, copies=None)
    assert learner.count == copies_needed("select", "convex", 0.3, 0.05) == math.ceil(math.log(40) / -math.log(0.7))
    fit = learner.prepare(X, y)
    kept = [pair(fit(weights, np.random.default_rng(s))(X), y, weights).max() <= 0.1 for s in range(40)]
    assert np.mean(kept) >= 0.95


def test_one_draw_of_the_mixture_has_its_expectation() -> None:
    X, y, weights = problem()
    arguments = {"base": {"type": "z_oracle", "z": {"type": "box", "fp": 0.2, "fn": 0.2}, "adversary": "random"}}
    fit = make("weak_learners/amplified", **arguments, copies=9, holdout=0, derandomize=True).prepare(X, y)
    values = fit(weights, np.random.default_rng(0))(X)
    assert set(values) <= {0.0, 1.0}
    soft = make("weak_learners/amplified", **arguments, copies=9, holdout=0).prepare(X, y)
    found = soft(weights, np.random.default_rng(0))
    assert pair(found(X), y, weights) == pytest.approx(found.point, abs=1e-9) and found.eps == 0


def test_copies_are_measured_on_examples_that_they_have_not_seen() -> None:
    X, y, weights = problem()
    tree = {"type": "sklearn", "name": "DecisionTreeClassifier"}
    noisy = y ^ (np.random.default_rng(1).random(200) < 0.3)
    seen = make("weak_learners/amplified", base=tree, copies=9, holdout=0).prepare(X, noisy)
    held = make("weak_learners/amplified", base=tree, copies=9, holdout=0.3).prepare(X, noisy)
    assert seen(weights, np.random.default_rng(0)).points.max() == 0  # a tree learns its examples by heart
    found = held(weights, np.random.default_rng(0))
    assert found.points.sum(axis=1).min() > 0.2 and found.eps == pytest.approx(measured_to(60, 9, 0.05), rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"success": 0.6}, "success: must be above 2/3 for a centerpoint of an unknown convex promise, and no rule"),
        ({"success": 0.5, "shape": "downward"}, "success: must be above 1/2 for a centerpoint of an unknown downward"),
        ({"by": "select"}, "by: select needs the promise: give z"),
    ],
)
def test_what_no_rule_can_do_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make("weak_learners/amplified", base="stump", **arguments)


def test_numbers_of_copies_follow_their_bounds() -> None:
    assert copies_needed("centerpoint", "convex", 0.9, 0.05) == math.ceil(math.log(20) / (2 * (0.9 - 2 / 3) ** 2))
    assert copies_needed("centerpoint", "downward", 0.9, 0.05) == math.ceil(math.log(20) / (2 * 0.4**2))
    assert copies_needed("select", "convex", 1.0, 0.05) == 1


def test_the_measure_reports_the_share_of_each_rule() -> None:
    X, y, _ = problem()
    import torch

    splits: Any = {"train": TensorSplit({"x": torch.from_numpy(X), "y": torch.from_numpy(y.astype(np.int64))})}
    measure = make(
        "measures/amplification",
        weak={"type": "flaky", "base": "stump", "success": 0.8, "failure": "adversarial"},
        z={"type": "box", "fp": 0.05, "fn": 0.05},
        copies=[9],
        trials=10,
    )
    found = measure.measure(Trained(recipe={}, splits=splits, facts={"num_classes": 2}))
    assert found.values["success"] == pytest.approx(0.8, abs=0.13)
    assert found.values["centerpoint_9"] >= found.values["single_9"] and found.values["mean_9"] < 0.5
    assert found.values["select_9"] == 1.0 and len(found.figures["shares"]().axes[0].lines) == 7
