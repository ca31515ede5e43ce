"""Promises of sets of error pairs, weak learners and votes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np

from raycipe.framework.conformance.example import Example
from raycipe.framework.registry import build
from raycipe.framework.tables import table


def _component(example: Example) -> Any:
    return build(example.plain, example.kind, example.path, facts=example.facts)


def pieces_are_convex_polygons_in_the_square(example: Example) -> None:
    """Corners inside the unit square, counter-clockwise, the same at each call."""
    found, again = _component(example).pieces(), _component(example).pieces()
    assert found and all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))
    for piece in found:
        assert piece.ndim == 2 and piece.shape[1] == 2 and piece.min() >= 0 and piece.max() <= 1, piece
        if len(piece) > 2:
            a = np.roll(piece, -1, axis=0) - piece
            b = np.roll(a, -1, axis=0)
            turns = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
            assert (turns > -1e-12).all(), f"not convex, or clockwise: {piece}"


def _problem(example: Example) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Up to 200 training examples: X, y as bool, weights of label mass 0.3."""
    rows = table(example.splits["train"])
    X, y = rows["X"][:200], rows["y"][:200] == rows["y"].min()
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(y))
    return X, y, np.where(y, 0.3 * weights / weights[y].sum(), 0.7 * weights / weights[~y].sum())


def learner_gives_probabilities(example: Example) -> None:
    """One number in [0, 1] an example, whatever stands beside it; hypotheses can be pickled."""
    X, y, weights = _problem(example)
    hypothesis = _component(example).prepare(X, y)(weights, np.random.default_rng(1))
    values = np.asarray(hypothesis(X), dtype=float)
    assert values.shape == y.shape and values.min() >= 0 and values.max() <= 1
    part = np.array(X[:5])
    np.testing.assert_allclose(hypothesis(part), values[:5], atol=1e-12)
    np.testing.assert_array_equal(copy.deepcopy(hypothesis)(part), hypothesis(part))
    assert pickle.dumps(hypothesis)


def learner_is_told_all_that_it_depends_on(example: Example) -> None:
    """Two fits with equal generators agree, in whatever order, and leave what they are given as it was."""
    X, y, weights = _problem(example)
    given = [X.copy(), y.copy(), weights.copy()]
    fit = _component(example).prepare(X, y)
    first = fit(weights, np.random.default_rng(1))(X)
    fit(np.full(len(y), 1 / len(y)), np.random.default_rng(2))
    np.testing.assert_array_equal(first, fit(weights, np.random.default_rng(1))(X))
    np.testing.assert_array_equal(first, _component(example).prepare(X, y)(weights, np.random.default_rng(1))(X))
    assert all(np.array_equal(a, b) for a, b in zip(given, (X, y, weights), strict=True)), "the data were changed"


def thresholds_are_in_order(example: Example) -> None:
    """low <= high, the same whatever the order of the examples, on scores that separate and on some that do not."""
    vote = _component(example)
    generator = np.random.default_rng(0)
    y = np.arange(4000) % 4 == 0
    for noise in (0.05, 0.5):
        scores = np.clip(0.5 + 0.2 * (2 * y - 1) + noise * generator.normal(size=len(y)), 0, 1)
        low, high = vote.thresholds(scores, y, np.ones(len(y)), True)
        assert low <= high, (low, high)
        order = generator.permutation(len(y))
        assert (low, high) == vote.thresholds(scores[order], y[order], np.ones(len(y)), True)


Z_SETS = (pieces_are_convex_polygons_in_the_square,)
WEAK_LEARNERS = (learner_gives_probabilities, learner_is_told_all_that_it_depends_on)
VOTES = (thresholds_are_in_order,)
