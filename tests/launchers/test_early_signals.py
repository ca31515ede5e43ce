"""Ctrl-C and SIGTERM before training: no traceback, exit code 130, nothing half-made left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from raycipe.framework.runs import find_all

LIMIT_S = 120


def interrupted_after(folder: Path, seconds: float, number: signal.Signals, workers: int) -> tuple[int, str]:
    command = [
        sys.executable,
        "-m",
        "raycipe.launchers.cli",
        "launch",
        "quickstart",
        f"resources.num_workers={workers}",
    ]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    signal.signal(signal.SIGINT, before)
    time.sleep(seconds)
    process.send_signal(number)
    out, _ = process.communicate(timeout=LIMIT_S)
    return process.returncode, out.decode()


@pytest.mark.parametrize("seconds", [0.6, 1.4])
def test_a_signal_while_torch_is_imported_ends_in_words(tmp_path: Path, seconds: float) -> None:
    code, out = interrupted_after(tmp_path, seconds, signal.SIGINT, workers=0)
    assert code in (0, 130) and "Traceback" not in out, out  # 0: a fast machine was through already
    for run in find_all(tmp_path / "runs"):
        assert run.status() in ("interrupted", "done")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [1.0, 4.0, 7.0])
def test_a_signal_while_ray_starts_ends_in_words(tmp_path: Path, seconds: float, number: signal.Signals) -> None:
    code, out = interrupted_after(tmp_path, seconds, number, workers=2)
    assert "Traceback" not in out, out
    assert code == 130 or (code == -signal.SIGTERM and not (tmp_path / "runs").exists()), out  # nothing was there yet
    for run in find_all(tmp_path / "runs"):
        assert run.status() == "interrupted" and run.read("result.json")["exit_code"] == 130
