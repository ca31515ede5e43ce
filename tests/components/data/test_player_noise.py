"""player_noise: its scale and tails."""

from __future__ import annotations

import pytest

from raycipe.framework.registry import make


@pytest.mark.parametrize("tail", ["gauss", "student3"])
def test_expected_square_norm_is_the_scale_squared(tail: str) -> None:
    tensors = make("data/player_noise", examples=50_000, dim=4, scale=2.0, tail=tail).load(0)["train"].tensors
    for player in ("x", "y"):
        assert float(tensors[player].square().sum(1).mean()) == pytest.approx(4.0, rel=0.05)
    beyond = [float((tensors[player].abs() > 5).double().mean()) for player in ("x", "y")]  # five deviations
    assert (max(beyond) < 1e-4) == (tail == "gauss")


def test_no_scale_is_no_noise() -> None:
    assert float(make("data/player_noise", scale=0.0).load(0)["train"].tensors["x"].abs().max()) == 0
