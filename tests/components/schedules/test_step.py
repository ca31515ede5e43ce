"""Drops at given points."""

from __future__ import annotations

import pytest

from raycipe.framework.registry import make


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"at": [0.5, 0.75], "gamma": 0.1}, {0: 1.0, 50: 1.0, 51: 0.1, 75: 0.1, 76: 0.01, 100: 0.01}),
        ({"warmup": 2}, {0: 0.5, 1: 1.0, 2: 1.0}),
    ],
)
def test_factor_equals_the_formula(arguments: dict[str, object], expected: dict[int, float]) -> None:
    schedule = make("schedules/step", **arguments)
    assert {step: schedule.factor(step, 101) for step in expected} == pytest.approx(expected)
