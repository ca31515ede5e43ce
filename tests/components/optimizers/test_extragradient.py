"""extragradient: its path on a bilinear game."""

from __future__ import annotations

from typing import Any

import pytest


def test_it_comes_nearer_to_the_saddle_at_the_known_rate(play: Any) -> None:
    run = play({"type": "extragradient", "lr": 0.1}, steps=100)
    assert float(run.w**2 + run.v**2) == pytest.approx(2 * 0.9901**100, abs=1e-10) == pytest.approx(0.739496370561)
    plain = play({"type": "sgda", "lr": 0.1}, steps=100)
    assert float(run.w**2 + run.v**2) < float(plain.w**2 + plain.v**2)


def test_a_longer_look_ahead_is_another_path(play: Any) -> None:
    """One step from (1, 1): ahead (1 - e, 1 + e), then w = 1 - 0.1 (1 + e), v = 1 + 0.1 (1 - e)."""
    run = play({"type": "extragradient", "lr": 0.1, "lr_extrapolate": 0.4}, steps=1)
    assert (float(run.w), float(run.v)) == pytest.approx((0.86, 1.06))


def test_a_fresh_sample_for_the_second_gradient_reads_twice_as_many_examples(play: Any) -> None:
    run = play({"type": "extragradient", "lr": 0.1, "same_sample": False}, steps=10)
    assert run.summary.examples == 20
