"""ogda: its path on a bilinear game."""

from __future__ import annotations

from typing import Any

import pytest


def test_it_comes_nearer_to_the_saddle_at_the_known_rate(play: Any) -> None:
    run = play({"type": "ogda", "lr": 0.1}, steps=100)
    assert float(run.w**2 + run.v**2) == pytest.approx(0.739574679781, abs=1e-10)
    assert run.summary.final["train/function_evals"] == 100
