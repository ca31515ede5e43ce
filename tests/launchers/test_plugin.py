"""The plugin of the book, built and installed as its page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "plugins.md"


def has_pip() -> bool:
    """Without looking for the module: setuptools then keeps its distutils, which torch.compile needs, to itself."""
    return any(distributions(name="pip"))


@pytest.mark.slow
@pytest.mark.skipif(not has_pip(), reason="needs pip")
def test_the_plugin_of_the_book_can_be_installed_and_used(tmp_path: Path) -> None:
    project, site, cache = tmp_path / "mylab", tmp_path / "site", tmp_path / "cache"
    project.mkdir()
    (toml,) = re.findall(r"^:caption: pyproject.toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (project / "pyproject.toml").write_text(toml)
    settings = {**os.environ, "PYTHONPATH": str(site), "XDG_CACHE_HOME": str(cache)}

    def run(*words: str, folder: Path = project) -> str:
        command = [sys.executable, "-P", "-m", *words]  # -P: the folder that we stand in is no place to import from
        done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def raycipe(*words: str, folder: Path = project) -> str:
        return run("raycipe.launchers.cli", *words, folder=folder)

    raycipe("new", "component", "models/gated_mlp", "--in", "mylab_recipes")
    written = f"{project / 'mylab_recipes' / 'schema.json'}\n"
    assert raycipe("schema", "mylab_recipes", "--write") == written
    run("pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site), ".")
    assert (site / "mylab_recipes" / "schema.json").is_file()

    assert "models/gated_mlp" in raycipe("list", "models", folder=tmp_path)
    assert not cache.exists(), "the installed schema is fresh: nothing was imported to make another"
    assert raycipe("schema", "mylab_recipes", "--write") == written, "the folder is the plugin that is installed"
    assert raycipe("schema", "mylab_recipes", "--write", folder=tmp_path) == f"{site}/mylab_recipes/schema.json\n"
    raycipe("new", "component", "models/deep_mlp", "--in", "mylab_recipes")
    assert "models/deep_mlp" not in raycipe("list", "models")
    assert "models/deep_mlp" in raycipe("list", "models", "--components", "mylab_recipes")
