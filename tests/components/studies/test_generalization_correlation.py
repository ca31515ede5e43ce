"""Rank correlations on runs whose figures are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from raycipe.components.studies import generalization_correlation as module
from raycipe.framework.contracts import Ended
from raycipe.framework.registry import make

OVER = {"optimizer.lr": [0.1, 0.2, 0.4], "train.batch_size": [8, 32]}


def study(**words: Any) -> Any:
    return make("studies/generalization_correlation", over=OVER, measures=["measure/a/x", "measure/b/x"], **words)


def runs(made: Any) -> list[Ended]:
    """a orders the gap exactly; b follows the batch size alone, which the gap also does, but nothing within."""
    found = []
    for each in made.variations({}):
        rate = OVER["optimizer.lr"].index(each.changes["optimizer.lr"])
        batch = OVER["train.batch_size"].index(each.changes["train.batch_size"])
        gap = 10 * batch + rate + 0.1 * each.changes["seed"]
        final = {
            "measure/a/x": gap**3, "measure/b/x": 100 * batch - rate, "train/loss": 0.0, "test/loss": gap,
            "train/accuracy": 1.0, "test/accuracy": 1 - gap / 100,
        }  # fmt: skip
        found.append(Ended(each, Path("trials", each.name), {"status": "done", "final": final}))
    return found


def test_tau_and_psi_tell_what_follows_one_hyperparameter_from_what_orders_all() -> None:
    made = study(seeds=2, bootstrap=40)
    ended = runs(made)
    values = made.conclude({}, ended).values
    assert values["runs"] == 12 and values["missing"] == 0
    assert values["a_x/loss_gap/kendall"] == pytest.approx(1.0) and values["a_x/accuracy_gap/psi"] == pytest.approx(1.0)
    assert values["a_x/loss_gap/low"] == pytest.approx(1.0) and values["a_x/loss_gap/spearman"] == pytest.approx(1.0)
    assert 0 < values["b_x/loss_gap/kendall"] < 0.5 and values["b_x/loss_gap/psi"] == pytest.approx(0.0)
    assert values["b_x/loss_gap/low"] < values["b_x/loss_gap/kendall"] < values["b_x/loss_gap/high"]
    row = made.conclude({}, ended).tables["correlations"][2]
    assert row["psi optimizer.lr"] == pytest.approx(-1.0) and row["psi train.batch_size"] == pytest.approx(1.0)


def test_runs_that_do_not_tell_everything_are_counted_and_left_out() -> None:
    made = study(seeds=1, bootstrap=20)
    ended = runs(made)
    ended[0] = Ended(ended[0].variation, ended[0].folder, {"status": "failed"})
    del ended[1].result["final"]["measure/b/x"]  # type: ignore[attr-defined]
    values = made.conclude({}, ended).values
    assert values["runs"] == 4 and values["missing"] == 2 and values["a_x/loss_gap/kendall"] == pytest.approx(1.0)
    assert made.conclude({}, ended[:3]).values == {"runs": 1.0, "missing": 2.0}


def test_ties_and_constants() -> None:
    assert np.isnan(module.kendall(np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0])))
    tied = module.kendall(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert tied == pytest.approx(2 / 6**0.5)  # tau-b
