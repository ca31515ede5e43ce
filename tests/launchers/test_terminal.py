"""A launch on a real terminal: the bar is there, Ray's noise is not."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

LIMIT_S = 150


def on_terminal(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and everything that a terminal of 100 columns received."""
    main, child = pty.openpty()
    command = [sys.executable, "-m", "raycipe.launchers.cli", "launch", *words]
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    process = subprocess.Popen(command, cwd=folder, stdin=child, stdout=child, stderr=child, env=environment)
    os.close(child)
    received, end = b"", time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if select.select([main], [], [], 0.2)[0]:
            try:
                block = os.read(main, 65536)
            except OSError:  # the other side is closed
                break
            received += block
        elif process.poll() is not None:
            break
    os.close(main)
    return process.wait(10), received.decode(errors="replace")


@pytest.mark.slow
def test_a_terminal_shows_the_bar_and_nothing_of_rays_output(tmp_path: Path) -> None:
    code, text = on_terminal(tmp_path, "quickstart", "train.epochs=100")
    assert code == 0, text
    assert re.search(r"step \d+/1900 .*━", text)
    assert "pid=" not in text and "TrainingReport" not in text
    log = next((tmp_path / "runs" / "quickstart").glob("2*/log.txt")).read_text()
    assert "pid=" in log and "\x1b[" not in log and "test/accuracy" in log


def test_a_terminal_shows_the_bar_of_a_run_in_this_process(tmp_path: Path) -> None:
    code, text = on_terminal(tmp_path, "quickstart", "resources.num_workers=0", "train.epochs=60")
    assert code == 0, text
    assert re.search(r"step \d+/1140 .*━", text)
