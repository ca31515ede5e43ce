"""Measures in the middle of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from raycipe.framework.training.after import measure
from raycipe.framework.training.loading import load_trained
from raycipe.framework.training.plan import TrainPlan
from raycipe.framework.training.saved import read
from raycipe.framework.training.session import train
from raycipe.framework.training.state import digest


def fitted(recipe: dict[str, Any], run_dir: Path) -> Any:
    (run_dir / "checkpoints").mkdir(parents=True, exist_ok=True)
    return train(TrainPlan(recipe=recipe, run_dir=str(run_dir)), after=measure)


def rows(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def weights(run_dir: Path) -> str:
    tensors = read(max((run_dir / "checkpoints").glob("step-*"))).tensors("model.safetensors")
    return digest([tensors[name] for name in sorted(tensors)])


def test_measures_come_as_rows_and_leave_training_alone(toy: Any, tmp_path: Path) -> None:
    plain = toy(measures=["weight_norms"])
    often = toy(measures=["weight_norms"], train_measure_every=2)  # epochs of 15 steps
    fitted(plain, tmp_path / "plain")
    summary = fitted(often, tmp_path / "often")
    key = "measure/weight_norms/norm"
    found = {row["step"]: row[key] for row in rows(tmp_path / "often") if key in row}
    assert list(found) == [30, 60, 75] and len(set(found.values())) == 3
    assert summary.final[key] == found[75] and len(summary.artifacts) == 1
    assert weights(tmp_path / "plain") == weights(tmp_path / "often")
    loaded = load_trained(often, str(tmp_path / "often"), 60)  # what a later run measures at that checkpoint
    from raycipe.framework.registry import make

    assert make("measures/weight_norms").measure(loaded).values["norm"] == found[60]
    assert loaded.step == 60 and {row["step"] for row in loaded.rows} == set(range(10, 61, 10)) | {15, 30, 45, 60}


def test_measures_that_are_for_the_end_wait_and_names_stay(toy: Any, tmp_path: Path, monkeypatch: Any) -> None:
    from raycipe.framework.registry import get

    monkeypatch.setattr(get("measures", "parameter_count"), "in_training", False)
    recipe = toy(measures=["parameter_count", "weight_norms", "weight_norms"], train_measure_every=4)
    fitted(recipe, tmp_path)
    names = {row["step"]: {name for name in row if name.startswith("measure/")} for row in rows(tmp_path)}
    assert {name.split("/")[1] for name in names[60]} == {"weight_norms", "weight_norms_2"}
    assert "measure/parameter_count/total" in names[75]


def test_a_measure_that_fails_in_between_does_not_end_the_run(toy: Any, tmp_path: Path, monkeypatch: Any) -> None:
    from raycipe.framework.registry import get

    def fail(self: Any, trained: Any) -> Any:
        raise RuntimeError(f"no number at step {trained.step}")

    monkeypatch.setattr(get("measures", "weight_norms"), "measure", fail)
    summary = fitted(toy(measures=["weight_norms"], train_measure_every=1), tmp_path)
    assert summary.status == "done" and summary.skipped[0]["why"] == "RuntimeError: no number at step 75"
    assert "no number at step 15" in (tmp_path / "log.txt").read_text()
