"""Simulated causal data: the stated effects are true."""

from __future__ import annotations

import numpy as np
import pytest

from raycipe.components.data import _dgps as dgps
from raycipe.framework.registry import make


@pytest.mark.parametrize(
    "name, effect, value",
    [
        ("dgp1", "true_ate", 1.0),
        ("dgp2", "true_att", 1.179699),
        ("dgp3", "true_ate", 1.25),
        ("dgp4", "true_ate", 1.0),
        ("dgp9", "true_ate", 1 + 0.5 * np.log(11)),
        ("dgp9", "true_ato", 2.19407),
        ("iv1", "true_ate", 1.36),
        ("iv1", "true_late", 1.251455),
        ("iv2", "true_late", 1.0),
    ],
)
def test_effects_are_those_by_hand(name: str, effect: str, value: float) -> None:
    assert dgps.effects(name)[effect] == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("name", ["dgp1", "dgp3", "dgp4", "dgp5", "dgp8", "dgp9", "risk"])
def test_draws_have_the_told_effect_and_nuisances(name: str) -> None:
    data = dgps.draw(name, 100_000, np.random.default_rng(0))
    e, m0, m1 = data["truth"].T
    assert np.mean(m1 - m0) == pytest.approx(dgps.effects(name)["true_ate"], abs=0.03)
    assert np.mean(data["treatment"] - e) == pytest.approx(0.0, abs=0.01)
    residual = data["y"] - np.where(data["treatment"] == 1, m1, m0)
    assert np.mean(residual) == pytest.approx(0.0, abs=0.03)
    assert np.mean(residual * (data["treatment"] - e)) == pytest.approx(0.0, abs=0.02)


def test_the_instrument_moves_the_treatment_and_confounding_fools_regression() -> None:
    data = dgps.draw("iv1", 100_000, np.random.default_rng(0), confounded=3.0)
    z, a, y = data["instrument"], data["treatment"], data["y"]
    assert a[z == 1].mean() - a[z == 0].mean() > 0.3
    plain = dgps.draw("iv1", 100_000, np.random.default_rng(0))
    difference = (y - plain["y"])[a == 1].mean() - (y - plain["y"])[a == 0].mean()
    assert difference < -0.5  # those with a small U are treated


def test_confounding_needs_an_instrument() -> None:
    with pytest.raises(ValueError, match="confounded: dgp1 has no instrument"):
        make("data/causal_dgp", name="dgp1", confounded=1.0)
