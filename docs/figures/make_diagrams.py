"""Trains an mlp on mnist1d, which it overfits, and copies the run's reliability diagram and confusion matrix here."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from raycipe.launchers import cli

FOLDER = Path(__file__).parent
RECIPE = FOLDER.parents[1] / "recipes" / "basics" / "mnist1d.yaml"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as storage:
        words = ["model={type: mlp, hidden: [100, 100]}", "expect=null", "--storage", storage]
        code = cli.launch([str(RECIPE), *words])
        for name in ("reliability", "confusion"):
            (picture,) = Path(storage).glob(f"*/2*/artifacts/**/*{name}*.svg")
            shutil.copy(picture, FOLDER / f"{name}.svg")
    sys.exit(code)
