"""What the console scripts say before a command runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from raycipe.launchers.cli import launch, launch_parser


def test_launch_alone_asks_for_a_recipe_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        launch([])
    assert end.value.code == 2
    assert capsys.readouterr().err.endswith("launch: error: the following arguments are required: RECIPE\n")


def test_overrides_stand_anywhere_or_nowhere() -> None:
    parser = launch_parser()
    assert parser.parse_intermixed_args(["a.yaml"]).overrides == []
    found = parser.parse_intermixed_args(["a.yaml", "x=1", "--profile", "p", "y=2"])
    assert (found.recipe, found.overrides, found.profile) == ("a.yaml", ["x=1", "y=2"], ["p"])


def test_the_help_of_launch_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        launch(["--help"])
    assert "\nexample: launch quickstart optimizer.lr=0.3 --profile smoke\n" in capsys.readouterr().out


def test_a_check_does_without_what_only_runs_and_help_need() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from raycipe.launchers.cli import raycipe\n"
        "assert raycipe(['check', sys.argv[1]]) == 0\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    recipe = str(Path(__file__).parents[2] / "recipes" / "quickstart.yaml")
    done = subprocess.run([sys.executable, "-c", code, recipe], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not {"hashlib", "difflib", "torch", "ray"} & set(done.stdout.split())
