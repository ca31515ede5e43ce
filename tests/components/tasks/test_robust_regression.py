"""robust_regression: bounds, cautions, held-out examples."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def test_automatic_radius_is_where_concavity_ends() -> None:
    assert make("tasks/robust_regression", reg_v=8.0).radius == 2.0
    assert make("tasks/robust_regression", reg_v=4.0, loss="huber").radius == 2.0
    assert make("tasks/robust_regression", reg_v=8.0).cautions() == []
    (caution,) = make("tasks/robust_regression", reg_v=8.0, radius_w=3.0).cautions()
    assert caution == "f is not concave in v beyond |w| = 2; task.radius_w allows 3"
    with pytest.raises(ValueError, match="radius_w: auto needs reg_v > 0"):
        make("tasks/robust_regression", reg_v=0.0)


def test_every_example_s_shift_stays_in_its_own_ball(game: Any) -> None:
    found = game("robust_regression", {"v_scope": "sample", "budget": 0.3}, targets="number")
    w, v = found.flat.read()
    _, inside = found.task.project(found.saddle, w, v + 1)
    assert float(inside.view(40, 6).norm(dim=1).max()) == pytest.approx(0.3) and len(inside) == 240


def test_held_out_examples_meet_their_worst_shift(game: Any) -> None:
    found = game("robust_regression", {"v_scope": "sample", "budget": 0.3, "reg_v": 9.0}, targets="number")
    fresh = {"x": found.batch["x"][:5] + 1, "y": found.batch["y"][:5], "id": torch.arange(1000, 1005)}
    worst = found.task.loss(found.saddle.eval(), fresh).value
    quiet = (found.saddle(fresh["x"]).reshape(-1) - fresh["y"].reshape(-1)).square().mean()
    assert float(worst) > float(quiet)


def test_rmse_is_a_root_and_several_targets_are_refused(game: Any) -> None:
    found = game("robust_regression", {}, targets="number")
    assert found.task.finish({"loss": 1.0, "rmse": 9.0})["rmse"] == 3.0
    from raycipe.framework.contracts import TensorSplit

    with pytest.raises(RunError, match="train: y holds 2 numbers an example"):
        found.task.check({}, {"train": TensorSplit({"x": torch.ones(2, 2), "y": torch.ones(2, 2)})})
