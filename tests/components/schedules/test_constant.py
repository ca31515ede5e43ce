"""The full rate after a warm-up."""

from __future__ import annotations

import pytest

from raycipe.framework.registry import make


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"warmup": 4}, {0: 0.25, 3: 1.0, 4: 1.0, 100: 1.0}),
        ({}, {0: 1.0, 100: 1.0}),
    ],
)
def test_factor_equals_the_formula(arguments: dict[str, object], expected: dict[int, float]) -> None:
    schedule = make("schedules/constant", **arguments)
    assert {step: schedule.factor(step, 101) for step in expected} == pytest.approx(expected)
