"""Overlap, and what an unmeasured confounder could do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raycipe.components.data import _dgps as dgps
from raycipe.components.estimators._causal_sample import overlap
from raycipe.components.measures.overlap_audit import standardized_differences
from raycipe.components.measures.sensitivity import bias_scale, robustness, strength
from raycipe.framework.contracts import Skipped, Trained
from raycipe.framework.registry import make


def trained(name: str, **arguments: Any) -> Trained:
    data = dgps.draw(name, 1000, np.random.default_rng(0))
    estimator = make("estimators/gbayes_causal", nuisance="oracle", **arguments)
    estimator.fit(data["x"], data["y"], treatment=data["treatment"], truth=data["truth"])
    return Trained(recipe={}, estimator=estimator)


def test_overlap_is_judged_where_it_fails() -> None:
    good, bad = (make("measures/overlap_audit").measure(trained(name)).values for name in ("dgp1", "dgp6"))
    assert good["verdict"] == 2 and good["clipped"] == 0
    assert bad["verdict"] == 0 and bad["clipped"] > 0.1
    assert good["difference_after"] < 0.15 < good["difference_before"]


def test_only_the_side_that_the_estimand_divides_by_counts() -> None:
    """Propensities near 0 leave the treated comparable, and do not leave the untreated so."""
    e = np.concatenate([np.full(900, 1e-4), np.full(200, 0.5)])
    chosen = np.concatenate([np.zeros(900), np.arange(200) % 2])
    assert overlap(e, chosen, 0.01, "att").verdict == "ok"
    assert overlap(e, chosen, 0.01, "ate").verdict == overlap(e, chosen, 0.01, "atc").verdict == "none"


def test_effective_sizes_are_those_by_hand() -> None:
    e = np.array([0.5, 0.25, 0.5, 0.8])
    found = overlap(e, np.array([1.0, 1.0, 0.0, 0.0]), 0.0)
    assert found.ess_treated == pytest.approx((2 + 4) ** 2 / (4 + 16))
    assert found.ess_control == pytest.approx((2 + 5) ** 2 / (4 + 25))


def test_differences_of_means_are_those_by_hand() -> None:
    X, chosen = np.array([[0.0], [2.0], [1.0], [3.0]]), np.array([0, 0, 1, 1])
    assert standardized_differences(X, chosen, np.ones(4))[0] == pytest.approx(1.0)
    assert standardized_differences(X, chosen, np.array([0.0, 1.0, 1.0, 0.0]))[0] == pytest.approx(-1.0)


def test_the_bound_holds_a_confounder_that_was_left_out() -> None:
    """Y = A + U + noise, and A depends on U alone: leaving U out biases the difference of means within the bound.

    The shares are computed from U itself; the bound is nearly reached, since both parts of the bias are linear in U.
    """
    generator = np.random.default_rng(0)
    n = 400_000
    u = generator.integers(0, 2, n)
    e = np.where(u == 1, 0.7, 0.3)
    a = (generator.uniform(size=n) < e).astype(float)
    y = a + u + generator.normal(size=n)
    bias = y[a == 1].mean() - y[a == 0].mean() - 1.0
    short = np.array([y[a == 0].mean(), y[a == 1].mean()])
    m0, m1, half = np.full(n, short[0]), np.full(n, short[1]), np.full(n, 0.5)
    scale = bias_scale(y, a, half, m0, m1)
    long_mean = a + u
    residual = y - np.where(a == 1, m1, m0)
    cf_y = float(((long_mean - np.where(a == 1, m1, m0)) ** 2).mean() / (residual**2).mean())
    second_short, second_long = 4.0, float((1 / e + 1 / (1 - e)).mean())  # of E[alpha^2]
    cf_d = 1 - second_short / second_long
    bound = scale * float(strength(cf_y, cf_d))
    assert abs(bias) <= bound * 1.01 and abs(bias) == pytest.approx(bound, rel=0.15)


def test_the_robustness_value_is_where_the_bound_reaches_the_estimate() -> None:
    cf = robustness(2.0, 3.0)
    assert 3.0 * float(strength(cf, cf)) == pytest.approx(2.0)
    found = make("measures/sensitivity").measure(trained("dgp1")).values
    assert 0 < found["robustness_interval"] < found["robustness"] < 1
    assert found["estimate_low"] < found["estimate_high"] and found["low"] < found["estimate_low"]


def test_the_bound_is_for_average_effects() -> None:
    with pytest.raises(Skipped, match="average effect"):
        make("measures/sensitivity").measure(trained("dgp1", estimand="att"))
