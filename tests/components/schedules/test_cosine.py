"""Half a cosine wave."""

from __future__ import annotations

import pytest

from raycipe.framework.registry import make


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {0: 1.0, 25: 0.8535533905932737, 50: 0.5, 100: 0.0}),
        ({"warmup": 20, "floor": 0.1}, {0: 0.05, 19: 1.0, 20: 1.0, 60: 0.55, 100: 0.1}),
    ],
)
def test_factor_equals_the_formula(arguments: dict[str, object], expected: dict[int, float]) -> None:
    schedule = make("schedules/cosine", **arguments)
    assert {step: schedule.factor(step, 101) for step in expected} == pytest.approx(expected)


def test_decay_ends_on_the_last_step_even_when_the_warmup_takes_the_whole_run() -> None:
    schedule = make("schedules/cosine", warmup=10, floor=0.2)
    assert schedule.factor(9, 10) == 1.0  # still warming up
    assert schedule.factor(10, 11) == pytest.approx(0.2) and schedule.factor(50, 11) == pytest.approx(0.2)
