"""A launch that is killed or interrupted from outside, as a process of its own, and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from raycipe.framework.runs import Run, find_all

RECIPE = """\
recipe: 1
name: killed
data: digits
model: {type: mlp, hidden: [64]}
task: classification
optimizer: {type: adamw, lr: 0.003, schedule: cosine}
train: {steps: 3000, batch_size: 32, eval_every: 500, checkpoint_every: 250, ema: 0.9}
measures: [parameter_count]
"""
LIMIT_S = 150


def start(folder: Path, storage: str, workers: int, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "raycipe.launchers.cli", "launch", *words, "--storage", storage]
    if "--resume" not in words:
        command += [f"resources.num_workers={workers}"]
    log = (folder / f"{storage}.out").open("ab")
    return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True, env={**os.environ})


def wait_for_checkpoint(folder: Path, process: subprocess.Popen[bytes]) -> Run:
    """The run, as soon as it has a checkpoint in the middle of its training."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        assert process.poll() is None, (folder / "broken.out").read_text()
        for run in find_all(folder / "broken"):
            if list(run.checkpoints.glob("step-*/manifest.json")):
                return run
        time.sleep(0.02)
    raise AssertionError("no checkpoint within the limit")


def weights(run: Run) -> bytes:
    return (run.checkpoints / "step-00003000" / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_broken_launch_resumes_to_the_bytes_of_an_unbroken_one(
    tmp_path: Path, workers: int, how: signal.Signals
) -> None:
    (tmp_path / "killed.yaml").write_text(RECIPE)
    assert start(tmp_path, "whole", workers, "killed.yaml").wait(LIMIT_S) == 0
    broken = start(tmp_path, "broken", workers, "killed.yaml")
    run = wait_for_checkpoint(tmp_path, broken)
    broken.send_signal(how)
    code = broken.wait(LIMIT_S)
    assert code == (130 if how == signal.SIGINT else -signal.SIGKILL)
    assert run.status() == ("interrupted" if how == signal.SIGINT else "killed")
    assert (
        start(tmp_path, "broken", workers, "killed.yaml", "--resume", f"resources.num_workers={workers}").wait(LIMIT_S)
        == 0
    )
    (whole,) = find_all(tmp_path / "whole")
    assert weights(run) == weights(whole)
    assert run.read("result.json")["final"] == whole.read("result.json")["final"]
    attempts = run.read("provenance.json")["attempts"]
    assert [attempt["how"] for attempt in attempts] == ["interrupted" if how == signal.SIGINT else "killed", "done"]


@pytest.mark.slow
def test_a_signal_to_the_whole_process_group_saves_the_run(tmp_path: Path) -> None:
    """As `timeout`, `kill %1` and many batch systems end a job: Ray's processes must not die first."""
    (tmp_path / "killed.yaml").write_text(RECIPE.replace("steps: 3000", "steps: 300000"))
    broken = start(tmp_path, "broken", 2, "killed.yaml")
    run = wait_for_checkpoint(tmp_path, broken)
    os.killpg(broken.pid, signal.SIGTERM)
    assert broken.wait(LIMIT_S) == 130, (tmp_path / "broken.out").read_text()
    result = run.read("result.json")
    assert result["status"] == "interrupted"
    assert result["checkpoints"][-1]["step"] == result["steps"] > 0


def test_only_children_of_rays_start_leave_the_process_group() -> None:
    from raycipe.launchers.ray_session import children_in_own_groups

    def leads_a_group() -> bool:
        command = [sys.executable, "-c", "import os; print(os.getpgrp() == os.getpid())"]
        return subprocess.run(command, preexec_fn=lambda: None, capture_output=True, check=True).stdout == b"True\n"

    with children_in_own_groups():
        assert leads_a_group()
    assert not leads_a_group()
