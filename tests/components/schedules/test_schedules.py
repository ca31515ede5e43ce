"""All schedules against their formulas, at the steps where they turn."""

from __future__ import annotations

import pytest

from raycipe.framework.registry import make


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("constant", {"warmup": 4}, {0: 0.25, 3: 1.0, 4: 1.0, 100: 1.0}),
        ("cosine", {}, {0: 1.0, 25: 0.8535533905932737, 50: 0.5, 100: 0.0}),
        ("cosine", {"warmup": 20, "floor": 0.1}, {0: 0.05, 19: 1.0, 20: 1.0, 60: 0.55, 100: 0.1}),
        ("linear", {"warmup": 20, "floor": 0.5}, {9: 0.5, 20: 1.0, 60: 0.75, 100: 0.5}),
        ("step", {"at": [0.5, 0.75], "gamma": 0.1}, {0: 1.0, 50: 1.0, 51: 0.1, 75: 0.1, 76: 0.01, 100: 0.01}),
        ("step", {"warmup": 2}, {0: 0.5, 1: 1.0, 2: 1.0}),
        ("inverse_sqrt", {"warmup": 25}, {0: 0.04, 24: 1.0, 99: 0.5}),
    ],
)
def test_factor_equals_the_formula(name: str, arguments: dict[str, object], expected: dict[int, float]) -> None:
    schedule = make(f"schedules/{name}", **arguments)
    assert {step: schedule.factor(step, 101) for step in expected} == pytest.approx(expected)


@pytest.mark.parametrize("name", ["cosine", "linear"])
def test_decay_ends_on_the_last_step_even_when_the_warmup_takes_the_whole_run(name: str) -> None:
    schedule = make(f"schedules/{name}", warmup=10, floor=0.2)
    assert schedule.factor(9, 10) == 1.0  # still warming up
    assert schedule.factor(10, 11) == pytest.approx(0.2) and schedule.factor(50, 11) == pytest.approx(0.2)
