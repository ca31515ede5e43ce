"""adversarial_logistic: closed responses, bounds, cautions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.framework.registry import make


def test_without_cost_the_whole_budget_goes_against_the_margin(game: Any) -> None:
    for norm in ("l2", "linf"):
        arguments = {"v_scope": "sample", "epsilon": 0.5, "reg_v": 0.0, "norm": norm}
        found = game("adversarial_logistic", arguments)
        w = found.saddle.model.layer.weight[0].detach()
        y = (found.batch["y"] * 2.0 - 1).unsqueeze(1)
        wanted = -0.5 * y * (w / w.norm() if norm == "l2" else w.sign())
        torch.testing.assert_close(found.task.best_response(found.saddle, found.batch).view(40, 6), wanted.double())


def test_a_shared_shift_has_no_closed_response(game: Any) -> None:
    found = game("adversarial_logistic", {})
    assert found.task.best_response(found.saddle, found.batch) is None


def test_cautions_tell_where_concavity_ends() -> None:
    assert "|w| <= 4 (2 sqrt(reg_v))" in make("tasks/adversarial_logistic", reg_v=4.0).cautions()[0]
    assert make("tasks/adversarial_logistic", reg_v=4.0, radius_w=4.0).cautions() == []


def test_players_stay_in_their_bounds(game: Any) -> None:
    found = game("adversarial_logistic", {"radius_w": 1.0, "epsilon": 0.2, "norm": "linf"})
    w, v = found.flat.read()
    w, v = found.task.project(found.saddle, w + 9, v + 9)
    assert float(w.norm()) == pytest.approx(1.0) and float(v.abs().max()) == pytest.approx(0.2)
