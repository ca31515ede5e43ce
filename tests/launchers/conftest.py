"""Fixtures of the launchers' tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raycipe.framework.runs import Run
from raycipe.launchers import cli


@pytest.fixture
def launch(tmp_path: Path, capsys: Any) -> Any:
    """`launch(text, "key=value")` -> (exit code, run, output)."""

    def go(text: str, *words: str, name: str = "thing") -> tuple[int, Run | None, str]:
        file = tmp_path / f"{name}.yaml"
        file.write_text(f"recipe: 1\nname: {name}\n{text}")
        code = cli.launch([str(file), *words, "--storage", str(tmp_path / "runs")])
        told = capsys.readouterr()
        runs = sorted((tmp_path / "runs" / name).glob("2*"))
        return code, Run(runs[-1]) if runs else None, told.out + told.err

    return go


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder
