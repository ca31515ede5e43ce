"""Files and folders that a recipe names."""

from __future__ import annotations

from pathlib import Path

import pytest

from raycipe.framework.inputs import Inputs
from raycipe.framework.tree import Node, Place


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "parts").mkdir()
    (tmp_path / "table.csv").touch()
    return tmp_path


def find(project: Path, text: str, suffixes: list[str]) -> tuple[str, str]:
    recipe = str(project / "a.yaml")
    return Inputs(recipe).find(Node(text, Place(recipe, 1, 1)), suffixes)


def test_a_folder_is_taken_where_the_argument_allows_one(project: Path) -> None:
    assert find(project, "parts", [".csv", "/"]) == (str(project / "parts"), "")
    assert find(project, "table.csv", [".csv", "/"]) == (str(project / "table.csv"), "")
    assert "must end in .csv, not `parts`" in find(project, "parts", [".csv"])[1]
    assert "is a folder" in find(project, "parts", [])[1]


def test_what_is_neither_is_told_with_what_is_allowed(project: Path) -> None:
    assert "must end in .csv or name a folder, not `table.txt`" in find(project, "table.txt", [".csv", "/"])[1]
    assert "no such file" in find(project, "none.csv", [".csv", "/"])[1]
    assert "lies outside the project" in find(project, "..", [".csv", "/"])[1]
