"""Onsets on curves that are known."""

from __future__ import annotations

from typing import Any

import pytest

from raycipe.framework.contracts import Skipped, Trained
from raycipe.framework.registry import make


def rows() -> list[dict[str, Any]]:
    """Memorized at 30 (a single high reading at 10 does not count), understood at 80; the signal leads by 20 steps."""
    found: list[dict[str, Any]] = []
    for step in range(10, 121, 10):
        train = 1.0 if step >= 30 or step == 10 else 0.5
        held_out = min(1.0, max(0.0, (step - 60) / 20))
        signal = min(1.0, max(0.1, (step - 40) / 20))
        found += [{"step": step, "train/accuracy": train}, {"step": step, "val/accuracy": held_out}]
        found.append({"step": step, "measure/signal": signal})
    return found


def measure(given: list[dict[str, Any]], **words: Any) -> Any:
    return make("measures/grokking_onset", **words).measure(Trained(recipe={}, rows=given))


def test_onsets_delay_and_what_the_signal_tells() -> None:
    found = measure(rows(), signal="measure/signal", patience=2)
    assert found.values["memorized_at"] == 30 and found.values["generalized_at"] == 80
    assert found.values["delay"] == 50 and found.values["ratio"] == pytest.approx(80 / 30)
    assert found.values["signal_growth"] == pytest.approx(10.0)
    assert found.values["signal_lead"] == pytest.approx(70 - 51)  # half of the way from 0.1 to 1 is at step 51
    assert 0.7 < found.values["signal_spearman"] < 1  # ties: it moves where the accuracy still rests
    assert found.tables["curves"][0] == {
        "step": 10, "train/accuracy": 1.0, "val/accuracy": 0.0, "measure/signal": 0.1,
    }  # fmt: skip
    found.figures["curves"]()


def test_what_was_not_reached_is_left_out() -> None:
    early = [row for row in rows() if row["step"] <= 60]
    assert set(measure(early).values) == {"readings", "memorized_at"}
    assert measure(early, train_threshold=0.4, patience=1).values["memorized_at"] == 10
    with pytest.raises(Skipped, match="no row of the run tells val/f1"):
        measure(early, held_out="val/f1")
    with pytest.raises(Skipped, match="2 readings of the signal stand beside"):
        measure([row for row in early if row["step"] <= 40], signal="measure/signal", patience=2)
