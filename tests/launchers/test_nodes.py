"""Nodes that go and come while a run trains, on a cluster of two nodes in one machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 420


def played(what: str, folder: Path) -> dict[str, Any]:
    script = Path(__file__).with_name("nodes.py")
    done = subprocess.run(
        [sys.executable, str(script), what, str(folder)], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def last_weights(run: dict[str, Any]) -> bytes:
    newest = max(Path(run["folder"]).glob("checkpoints/step-*"))
    return (newest / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_run_that_loses_a_node_ends_with_the_bits_of_one_that_did_not(tmp_path: Path) -> None:
    found = played("lost", tmp_path)
    whole, broken = found["whole"], found["broken"]
    assert whole["outcome"]["status"] == broken["outcome"]["status"] == "done"
    assert any("starting again from the newest checkpoint (1 of 2)" in line for line in broken["told"])
    assert last_weights(broken) == last_weights(whole)
    assert broken["outcome"]["final"] == whole["outcome"]["final"]


@pytest.mark.slow
def test_an_elastic_run_goes_on_from_its_checkpoint_when_a_node_comes(tmp_path: Path) -> None:
    run = played("grown", tmp_path)
    assert run["outcome"]["status"] == "interrupted", run
    assert run["sizes"] == [1, 2]
