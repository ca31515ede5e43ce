"""poisoning: who is poisoned, and that held-out examples are clean."""

from __future__ import annotations

from typing import Any

import torch


def test_only_the_poisoned_share_feels_the_shift(game: Any) -> None:
    found = game("poisoning", {"fraction": 0.25, "budget": 1.0}, outputs=2)
    w, v = found.flat.read()
    moved = (found.flat.value(w, v, found.batch) - found.flat.value(w, 0 * v, found.batch)).abs() > 1e-12
    assert torch.equal(moved, found.saddle.poisoned == 1) and int(moved.sum()) == 10
    held_out = found.task.loss(found.saddle.eval(), found.batch).value
    found.flat.write(w, 0 * v)
    assert torch.equal(held_out, found.task.loss(found.saddle.train(), found.batch).value)


def test_the_shift_stays_in_its_box_and_the_user_is_told_of_no_theory(game: Any) -> None:
    found = game("poisoning", {"budget": 0.5}, outputs=2)
    w, v = found.flat.read()
    assert float(found.task.project(found.saddle, w, v - 9)[1].max()) == -0.5
    assert "not concave in v" in found.task.cautions()[0]
