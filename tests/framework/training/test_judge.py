"""Best evaluations and early stopping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raycipe.framework.training.judge import Judge
from raycipe.framework.training.plan import EarlyStop, KeepBest, Settings


def judge(**section: Any) -> Judge:
    return Judge({"train": section}, Settings(**section))


def test_small_gains_add_up_to_one_of_min_delta() -> None:
    stop = EarlyStop("val/loss", "min", patience=3, min_delta=0.25)
    judged = judge(early_stop=stop)
    values = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]  # each gains less than 0.25, every third one more than it together
    assert [judged.look({"val/loss": value}, step)[1] for step, value in enumerate(values)] == [False] * 7
    assert judged.summary()["val/loss"] == {"value": 0.4, "step": 6}
    assert [judged.look({"val/loss": 0.4}, step)[1] for step in (7, 8, 9)] == [False, False, True]


def test_keeping_and_stopping_may_look_at_a_metric_from_both_sides() -> None:
    judged = judge(keep_best=KeepBest("val/gap", "max"), early_stop=EarlyStop("val/gap", "min", patience=2))
    found = [judged.look({"val/gap": value}, step) for step, value in enumerate([3.0, 2.0, 4.0, 5.0])]
    assert found == [(True, False), (False, False), (True, False), (True, True)]
    assert judged.kept() == [{"value": 5.0, "step": 3, "metric": "val/gap"}] and judged.reference == 2.0


@pytest.mark.parametrize("metric", ["train/loss", "train/accuracy", "train/lr"])
@pytest.mark.parametrize("key", ["early_stop", "keep_best"])
def test_metrics_of_training_are_known_at_each_evaluation(
    toy: Any, fit: Any, run_dir: Path, metric: str, key: str
) -> None:
    mode = "max" if metric == "train/accuracy" else "min"
    recipe = toy(
        train_steps=25, train_eval_every=10, train_log_every=50, **{f"train_{key}": {"metric": metric, "mode": mode}}
    )
    summary = fit(recipe, run_dir)
    assert summary.steps == 25 and metric in summary.best
    steps = [row["step"] for row in map(json.loads, (run_dir / "metrics.jsonl").open()) if metric in row]
    assert steps == [10, 20, 25]
