"""A sweep whose driver is killed in the middle, as a process of its own, and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from raycipe.framework.runs import Run, final_values, find_all, trials

RECIPE = """\
recipe: 1
name: killed
data: digits
model: {type: mlp, hidden: [32]}
task: classification
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
train: {epochs: 200, batch_size: 32, checkpoint_every: 1}
resources: {num_workers: 0}
sweep:
  space: {optimizer.lr: {loguniform: [1e-3, 1e-1]}, seed: {randint: [0, 1000]}}
  metric: val/loss
  mode: min
  trials: 5
"""
LIMIT_S = 240


def start(folder: Path, storage: str, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "raycipe.launchers.cli", "launch", *words, "--storage", storage]
    log = (folder / f"{storage}.out").open("ab")
    return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True, env={**os.environ})


def wait_for_the_middle(folder: Path, process: subprocess.Popen[bytes]) -> Run:
    """The sweep, as soon as a trial has ended and another one has a checkpoint."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        assert process.poll() is None, (folder / "broken.out").read_text()
        for run in find_all(folder / "broken"):
            done = [trial for trial in trials(run) if (trial.path / "result.json").exists()]
            begun = [t for t in trials(run) if t not in done and list(t.checkpoints.glob("step-*/manifest.json"))]
            if done and begun:
                return run
        time.sleep(0.02)
    raise AssertionError("the sweep did not get that far within the limit")


def wait_until_nobody_works(run: Run) -> None:
    """The trials' processes outlive a killed driver for a moment, in which one may end well."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and any(trial.is_locked() for trial in trials(run)):
        time.sleep(0.1)


def finals(run: Run) -> dict[str, dict[str, float]]:
    return {trial.path.name: final_values(trial.read("result.json")) for trial in trials(run)}


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_broken_sweep_resumes_to_the_numbers_of_an_unbroken_one(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "killed.yaml").write_text(RECIPE)
    assert start(tmp_path, "whole", "killed.yaml", "--sweep").wait(LIMIT_S) == 0
    process = start(tmp_path, "broken", "killed.yaml", "--sweep")
    run = wait_for_the_middle(tmp_path, process)
    process.send_signal(how)
    assert process.wait(LIMIT_S) == (-9 if how == signal.SIGKILL else 130)
    wait_until_nobody_works(run)
    ended = {
        t.path: (t.path / "result.json").stat().st_mtime_ns
        for t in trials(run)
        if t.read("result.json").get("status") == "done"
    }
    begun = [t for t in trials(run) if t.path not in ended]
    assert ended and begun
    assert start(tmp_path, "broken", "--resume", str(run)).wait(LIMIT_S) == 0
    assert finals(run) == finals(find_all(tmp_path / "whole")[0])
    assert all((path / "result.json").stat().st_mtime_ns == before for path, before in ended.items())
    hows = {t.path: [attempt["how"] for attempt in t.read("provenance.json")["attempts"]] for t in trials(run)}
    assert all(attempts[-1] == "done" for attempts in hows.values())
    assert all(len(hows[t.path]) > 1 for t in begun)
