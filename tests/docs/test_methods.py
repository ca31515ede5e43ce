"""Every component has its page, and every recipe on such a page passes the check."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from raycipe.framework import catalogue
from raycipe.framework.check import check
from raycipe.framework.recipe import load

TOP = Path(__file__).parents[2]
PAGES = sorted((TOP / "docs" / "methods").glob("*/*.md"))
FRAGMENT = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMPONENTS = sorted(file for file in (TOP / "components").glob("*/[!_]*.py"))


@pytest.mark.parametrize("file", COMPONENTS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_component_stands_in_the_title_of_a_page_of_its_kind(file: Path) -> None:
    titles = [page.read_text().partition("\n")[0] for page in PAGES if page.parent.name == file.parent.name]
    assert any(re.search(rf"\b{file.stem}\b", title) for title in titles), titles


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_recipes_on_a_page_pass_the_check(page: Path, tmp_path: Path) -> None:
    for name in ("coffee.csv", "a9a.libsvm", "trial.csv"):
        (tmp_path / name).touch()
    fragments = FRAGMENT.findall(page.read_text())
    assert fragments, "a page shows at least one recipe"
    for number, fragment in enumerate(fragments):
        path = tmp_path / f"{number}.yaml"
        path.write_text(f"recipe: 1\nname: example\n{fragment}")
        check(load(str(path)), catalogue.load())


def test_pictures_that_pages_show_are_there() -> None:
    for page in PAGES:
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]*)\)", page.read_text()):
            assert (page.parent / picture).is_file(), f"{page.name}: {picture}"
