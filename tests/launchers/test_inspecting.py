"""The command diff: what each side is, and what differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from raycipe.framework import runs
from raycipe.framework.check import check
from raycipe.framework.emit import dump
from raycipe.framework.recipe import load
from raycipe.launchers.cli import raycipe

Lab = Callable[..., Path]
FLAT = '''
@register
class Flat(Schedule):
    """The same rate throughout."""

    def factor(self, step: int, total_steps: int) -> float:
        return 1.0
'''
CHILD = "recipe: 1\nname: quickstart\nextends: quickstart\nabout: The same, slower.\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "slower.yaml").write_text(CHILD + "optimizer: {lr: 0.01}\n")
    return tmp_path


def a_run_of(recipe: str) -> runs.Run:
    checked = check(load(recipe))
    run = runs.create("runs", checked.name)
    run.write("resolved.yaml", dump(checked.plain))
    run.write("provenance.json", json.dumps({"format": 1}))
    return run


def test_a_packaged_recipe_is_meant_where_no_run_has_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["diff", "slower.yaml", "quickstart"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["left: recipe slower.yaml", "right: packaged recipe quickstart", "optimizer.lr: 0.01 -> 0.1"]


def test_a_run_wins_over_a_packaged_recipe_of_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    run = a_run_of("slower.yaml")
    assert raycipe(["diff", "slower.yaml", "quickstart"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["left: recipe slower.yaml", f"right: run runs/quickstart/{run.id}", "the same recipe"]
    assert raycipe(["diff", "quickstart", "slower.yaml", "--storage", "elsewhere"]) == 1
    assert capsys.readouterr().out.startswith("left: packaged recipe quickstart\nright: recipe slower.yaml\n")


def test_a_name_that_is_neither_run_nor_recipe_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert raycipe(["diff", "slower", "quickstart"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: slower: no such run\n    newest runs: none under ")
    assert err.endswith("\n    a recipe is named by its file, or by its name if it is packaged\n")


def test_recipes_with_own_components_can_be_compared(here: Path, lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lab({"schedules/flat": FLAT}, add=False)
    (here / "flat.yaml").write_text(CHILD + "optimizer: {schedule: flat}\n")
    assert raycipe(["diff", "flat.yaml", "quickstart"]) == 2
    assert "no schedules/flat" in capsys.readouterr().err
    assert raycipe(["diff", "flat.yaml", "quickstart", "--components", str(folder)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith('optimizer.schedule: {"type": "flat"} -> {"type": "cosine"')


def test_the_list_of_runs_tells_what_was_noted_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    a_run_of("slower.yaml")
    assert raycipe(["runs"]) == 0
    assert "note" not in capsys.readouterr().out
    noted = a_run_of("slower.yaml")
    noted.write("provenance.json", json.dumps({"format": 1, "note": "reproduces quickstart/1"}))
    assert raycipe(["runs"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.endswith("note")
    assert [line.endswith("reproduces quickstart/1") for line in lines if noted.id in line] == [True]
