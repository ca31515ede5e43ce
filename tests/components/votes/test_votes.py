"""Thresholds of votes: by hand, in simulations, and where examples are too few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from raycipe.components.votes import _rules as rules
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def thresholds(type_: str, scores: Any, y: Any, held_out: bool = True, **arguments: Any) -> tuple[float, float]:
    scores, y = np.asarray(scores, dtype=float), np.asarray(y, dtype=bool)
    found: tuple[float, float] = make(f"votes/{type_}", **arguments).thresholds(scores, y, np.ones(len(y)), held_out)
    return found


def test_a_threshold_lies_in_the_middle_of_the_gap() -> None:
    assert thresholds("threshold", [0.1, 0.3, 0.7, 0.9], [0, 0, 1, 1]) == (0.5, 0.5)
    assert thresholds("threshold", [0.1, 0.3, 0.7, 0.9], [0, 0, 1, 1], at=0.2) == (0.2, 0.2)
    assert thresholds("majority", [0.1, 0.3], [0, 1]) == (0.5, 0.5)


def test_costs_move_the_threshold() -> None:
    scores, y = [0.1, 0.2, 0.4, 0.6, 0.8, 0.9], [0, 1, 0, 0, 1, 1]
    assert thresholds("threshold", scores, y)[0] == pytest.approx(0.7)
    assert thresholds("threshold", scores, y, cost_fn=5)[0] == pytest.approx(0.15)
    with pytest.raises(ValueError, match="cost_fp: one of the two costs must be above 0"):
        make("votes/threshold", cost_fp=0, cost_fn=0)


def test_equal_scores_are_not_torn_apart() -> None:
    low, _ = thresholds("threshold", [0.5, 0.5, 0.5, 0.5], [0, 1, 1, 1])
    assert low < 0.5  # all positive errs once, all negative three times


def test_the_rank_is_the_smallest_that_keeps_the_confidence() -> None:
    assert rules.least_examples(0.05, 0.05) == 59 and rules.rank_for(59, 0.05, 0.05) == 59
    assert rules.rank_for(58, 0.05, 0.05) is None
    k = rules.rank_for(200, 0.1, 0.1)
    assert k is not None and binom.sf(k - 1, 200, 0.9) <= 0.1 < binom.sf(k - 2, 200, 0.9)


def test_too_few_examples_are_told_with_the_number_needed() -> None:
    scores, y = np.linspace(0, 1, 100), np.arange(100) >= 50
    with pytest.raises(RunError, match=r"50 held-out examples[\s\S]*it takes 299"):
        thresholds("budget", scores, y, fp_budget=0.01, of="rate")
    with pytest.raises(RunError, match="calibration is 0"):
        thresholds("budget", scores, y, fp_budget=0.2, held_out=False)
    thresholds("budget", scores, y, fp_budget=0.2, delta=None, held_out=False)


@pytest.mark.parametrize("of", ["rate", "mass"])
def test_a_budget_is_broken_as_rarely_as_promised(of: str) -> None:
    """500 simulations at 0.1 and delta 0.1: at most 13 %, three deviations above 10 %."""
    generator = np.random.default_rng(0)
    broken = {0.1: 0, None: 0}
    for _ in range(500):
        y = generator.random(300) < 0.3
        scores = generator.normal(size=300) + 2 * y
        for delta in broken:
            at, _ = thresholds("budget", scores, y, fp_budget=0.1, delta=delta, of=of)
            rate = float(norm.sf(at)) * (1.0 if of == "rate" else 0.7)
            broken[delta] += rate > 0.1
    assert broken[0.1] / 500 <= 0.13 < broken[None] / 500


def test_counted_budgets_hold_on_the_examples_themselves() -> None:
    generator = np.random.default_rng(1)
    y = generator.random(1000) < 0.3
    scores = np.round(generator.normal(size=1000) + y, 1)  # many ties
    at, _ = thresholds("budget", scores, y, fp_budget=0.02, delta=None)
    assert ((scores > at) & ~y).mean() <= 0.02 < ((scores > at - 0.11) & ~y).mean()


def test_two_thresholds_keep_both_budgets() -> None:
    generator = np.random.default_rng(2)
    y = generator.random(4000) < 0.5
    scores = generator.normal(size=4000) + 2 * y
    low, high = thresholds("two_threshold", scores, y, fp_budget=0.02, fn_budget=0.01, delta=None)
    assert low < high
    assert ((scores > high) & ~y).mean() <= 0.02 and ((scores <= low) & y).mean() <= 0.01
    sure_low, sure_high = thresholds("two_threshold", scores, y, fp_budget=0.02, fn_budget=0.01)
    assert sure_low < low and sure_high > high


def test_easy_budgets_leave_nothing_open() -> None:
    scores, y = np.linspace(0, 1, 100), np.arange(100) >= 50
    low, high = thresholds("two_threshold", scores, y, fp_budget=0.2, fn_budget=0.2, delta=None)
    assert low == high
