"""Decay with the inverse square root."""

from __future__ import annotations

import pytest

from raycipe.framework.registry import make


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"warmup": 25}, {0: 0.04, 24: 1.0, 99: 0.5}),
    ],
)
def test_factor_equals_the_formula(arguments: dict[str, object], expected: dict[int, float]) -> None:
    schedule = make("schedules/inverse_sqrt", **arguments)
    assert {step: schedule.factor(step, 101) for step in expected} == pytest.approx(expected)
