"""Trackers, each with its real library and a local store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raycipe.framework.errors import RunError
from raycipe.framework.files import Follower
from raycipe.framework.results import tracking as tracking_module
from raycipe.framework.results.tracking import TRACKERS, Tracking
from raycipe.framework.runs import Run, create

RECIPE = {"name": "toy", "optimizer": {"type": "sgd", "lr": 0.1}}
RESULT = {"status": "done", "steps": 2, "final": {"test/loss": 0.25}}


def write_row(run: Run, step: int, **metrics: Any) -> None:
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": step, "epoch": None, "seconds": 0.0, "attempt": 0, **metrics}) + "\n")


def track(run: Run, options: Any) -> list[str]:
    """Two rows and a result through the trackers; returns the warnings."""
    warnings: list[str] = []
    tracking = Tracking(run, {**RECIPE, "track": options}, warnings.append)
    tracking.require()
    write_row(run, 1, **{"train/loss": 1.0})
    tracking.poll()
    write_row(run, 2, **{"train/loss": 0.5, "val/loss": "NaN"})
    tracking.close(RESULT)
    return warnings


def test_tensorboard_reads_back_every_row_and_the_final_value(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = create(tmp_path, "toy")
    assert track(run, ["tensorboard"]) == []
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(1, 1.0), (2, 0.5)]
    assert events.Scalars("test/loss")[0].value == 0.25


def test_mlflow_gets_parameters_rows_and_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the optional package mlflow-skinny is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    run = create(tmp_path, "toy")
    assert track(run, {"mlflow": {"experiment": "e", "tags": {"who": "me"}}}) == []
    client = mlflow.MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("e").experiment_id])
    assert found.data.params["optimizer.lr"] == "0.1" and found.data.tags["who"] == "me"
    assert found.data.metrics["train/loss"] == 0.5 and found.data.metrics["test/loss"] == 0.25
    assert found.info.status == "FINISHED"


def test_wandb_writes_an_offline_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="the optional package wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("WANDB_CONSOLE", "off")
    run = create(tmp_path, "toy")
    assert track(run, {"wandb": {"project": "p", "tags": ["a"]}}) == []
    assert list(run.path.glob("wandb/offline-run-*/*.wandb"))


def test_a_failing_tracker_is_switched_off_with_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(TRACKERS["tensorboard"]):  # type: ignore[misc,name-defined]
        def log(self, step: int, metrics: Any) -> None:
            raise OSError("no space")

    monkeypatch.setitem(TRACKERS, "tensorboard", Broken)
    warnings = track(create(tmp_path, "toy"), ["tensorboard"])
    assert warnings == ["track: tensorboard switched off: OSError: no space"]


def test_a_missing_library_is_refused_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RunError, match="mlflow is not installed") as caught:
        Tracking(create(tmp_path, "toy"), {**RECIPE, "track": ["mlflow"]}, print).require()
    assert "raycipe[mlflow]" in caught.value.hint


def test_no_track_opens_nothing(tmp_path: Path) -> None:
    run = create(tmp_path, "toy")
    assert track(run, []) == [] and not (run.path / "tensorboard").exists()


def test_a_resumed_run_sends_only_rows_beyond_its_checkpoint(tmp_path: Path) -> None:
    run = create(tmp_path, "toy")
    sent: list[int] = []

    class Recorder(TRACKERS["tensorboard"]):  # type: ignore[misc,name-defined]
        def log(self, step: int, metrics: Any) -> None:
            sent.append(step)

    write_row(run, 1, **{"train/loss": 1.0})
    write_row(run, 2, **{"train/loss": 1.0})
    tracking = Tracking(run, RECIPE, print, start_step=1)
    TRACKERS["tensorboard"], original = Recorder, TRACKERS["tensorboard"]
    try:
        tracking.poll()
    finally:
        TRACKERS["tensorboard"] = original
    assert sent == [2]


def test_the_follower_waits_for_whole_lines_and_starts_over_after_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    follower = Follower(path)
    assert list(follower.rows()) == []
    path.write_text('{"step": 1}\n{"step"')
    assert [row["step"] for row in follower.rows()] == [1]
    path.write_text('{"step": 1}\n{"step": 2}\n')
    assert [row["step"] for row in follower.rows()] == [2]
    path.write_text('{"step": 1}\n')
    assert [row["step"] for row in follower.rows()] == [1]


def test_a_full_disk_below_tensorboard_is_one_warning_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from tensorboard.summary.writer.record_writer import RecordWriter

    def full(self: Any, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordWriter, "write", full)
    warnings = track(create(tmp_path, "toy"), ["tensorboard"])
    assert warnings == ["track: tensorboard switched off: OSError: [Errno 28] No space left on device"]
    assert "Traceback" not in capfd.readouterr().err


def test_other_threads_still_show_their_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    shown: list[Any] = []
    monkeypatch.setattr(tracking_module, "_shown_before", shown.append)
    monkeypatch.setattr(threading, "excepthook", tracking_module._hook)
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    assert [each.exc_type for each in shown] == [ZeroDivisionError]
