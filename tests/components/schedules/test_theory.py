"""theory: the constant rate of theorems."""

from __future__ import annotations

from raycipe.framework.registry import make


def test_factor_is_one_over_the_root_of_the_length() -> None:
    assert [make("schedules/theory").factor(step, 400) for step in (0, 399)] == [0.05, 0.05]
    assert make("schedules/theory", steps=100).factor(3, 400) == 0.1
