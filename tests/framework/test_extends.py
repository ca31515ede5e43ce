from __future__ import annotations

import os
from pathlib import Path

import pytest

from raycipe.framework.errors import RecipeError
from raycipe.framework.extends import packaged_file, packaged_names, read_chain, version_problem
from raycipe.framework.tree import plain

HEAD = "recipe: 1\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project (its top holds pyproject.toml) that is the current folder."""
    folder = tmp_path / "project"
    (folder / "recipes" / "topic").mkdir(parents=True)
    (folder / "pyproject.toml").touch()
    monkeypatch.chdir(folder)
    return folder


def refused(path: str) -> str:
    with pytest.raises(RecipeError) as caught:
        read_chain(path)
    [problem] = caught.value.problems
    assert problem.code == "extends"
    return str(problem)


def write(path: str, text: str) -> str:
    Path(path).write_text(HEAD + text)
    return path


def test_bases_are_read_relative_to_the_file_that_names_them(project: Path) -> None:
    write("recipes/base.yml", "a: 1")
    write("recipes/topic/middle.yaml", "extends: ../base.yml")
    write("recipes/top.yaml", "extends: topic/middle.yaml\nextra: 1")
    chain = read_chain("recipes/top.yaml")
    assert [source.path for source in chain] == ["recipes/top.yaml", "recipes/topic/middle.yaml", "recipes/base.yml"]
    assert str(chain[2].node.value["a"].at) == "recipes/base.yml:2:4"
    assert chain[0].content == b"recipe: 1\nextends: topic/middle.yaml\nextra: 1"
    absolute = read_chain(str(project / "recipes/top.yaml"))
    assert [source.path for source in absolute] == [str(project / source.path) for source in chain]


def test_a_packaged_recipe_is_found_by_its_name(project: Path) -> None:
    write("a.yaml", "extends: quickstart")
    chain = read_chain("a.yaml")
    assert plain(chain[1].node)["name"] == "quickstart"
    assert Path(chain[1].path).is_file()
    assert "quickstart" in packaged_names()


def test_a_packaged_recipe_can_be_named_without_a_base(project: Path) -> None:
    assert Path(packaged_file("quickstart")).name == "quickstart.yaml"
    for name, hint in (
        ("quickstrat", "did you mean `quickstart`?"),
        ("../x", "known: "),
        ("own", "the file own.yaml?"),
    ):
        Path("own.yaml").touch()
        with pytest.raises(RecipeError, match=hint.replace("?", r"\?")) as caught:
            packaged_file(name)
        assert str(caught.value).startswith(f"{name}: no packaged recipe is named `{name}`")


def test_a_base_is_found_from_any_current_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("recipes/base.yaml", "a: 1")
    write("recipes/top.yaml", "extends: base.yaml")
    monkeypatch.chdir(project / "recipes" / "topic")
    assert [source.path for source in read_chain("../top.yaml")] == ["../top.yaml", "../base.yaml"]


def test_a_linked_base_inside_the_project_is_read_and_its_own_bases_lie_beside_its_real_path(project: Path) -> None:
    write("recipes/topic/real.yaml", "extends: below.yaml")
    write("recipes/topic/below.yaml", "a: 1")
    Path("recipes/link.yaml").symlink_to("topic/real.yaml")
    write("recipes/top.yaml", "extends: link.yaml")
    assert [Path(source.real).name for source in read_chain("recipes/top.yaml")] == [
        "top.yaml",
        "real.yaml",
        "below.yaml",
    ]


WRONG = {
    "[a.yaml]": "a.yaml:2:10: extends: must be the path or the name of a recipe\n    a path relative to this file",
    "null": "a.yaml:2:10: extends: must be the path or the name of a recipe",
    '"a\\0.yaml"': "a.yaml:2:10: extends: must be the path or the name of a recipe",
    "https://example.org/a.yaml": (
        "a.yaml:2:10: extends: recipes are not read from the network\n    download the file and name it by its path"
    ),
    "file:///a.yaml": "a.yaml:2:10: extends: recipes are not read from the network",
    "base.json": "a.yaml:2:10: extends: `base.json` is neither the path nor the name of a recipe",
    "../quickstart": "a.yaml:2:10: extends: `../quickstart` is neither the path nor the name of a recipe",
    "${name}": "a.yaml:2:10: extends: `${name}` is neither the path nor the name of a recipe",
    "/etc/a.yaml": "a.yaml:2:10: extends: `/etc/a.yaml` is an absolute path\n    write it relative to this file",
    "../outside.yaml": "a.yaml:2:10: extends: `../outside.yaml` lies outside the project (",
    "linked-outside.yaml": "a.yaml:2:10: extends: `linked-outside.yaml` lies outside the project (",
    "gone.yaml": "a.yaml:2:10: extends: no such file: `gone.yaml`\n    looked for ",
    "folder.yaml": "a.yaml:2:10: extends: is no regular file: `folder.yaml`",
    "pipe.yaml": "a.yaml:2:10: extends: is no regular file: `pipe.yaml`",
    "text.yaml": "a.yaml:2:10: extends: `text.yaml` leads to a file that is no .yaml file",
    "quickstrat": ("a.yaml:2:10: extends: no packaged recipe is named `quickstrat`\n    did you mean `quickstart`?"),
    "zzzzzz": "a.yaml:2:10: extends: no packaged recipe is named `zzzzzz`\n    known: ",
    "a.yaml": "a.yaml:2:10: extends: goes round in a circle: a.yaml -> a.yaml",
}


@pytest.mark.parametrize("value", WRONG)
def test_everything_else_is_refused(value: str, project: Path) -> None:
    Path("../outside.yaml").write_text(HEAD)
    Path("linked-outside.yaml").symlink_to("../outside.yaml")
    Path("text.yaml").symlink_to("pyproject.toml")
    os.mkfifo("pipe.yaml")
    Path("folder.yaml").mkdir()
    assert refused(write("a.yaml", f"extends: {value}")).startswith(WRONG[value])


def test_without_a_project_only_the_recipes_own_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from raycipe.framework import extends

    monkeypatch.setattr(extends, "project_root", lambda folder: folder)  # whatever lies above the temporary folder
    (tmp_path / "in").mkdir()
    (tmp_path / "base.yaml").write_text(HEAD)
    (tmp_path / "in" / "beside.yaml").write_text(HEAD)
    (tmp_path / "in" / "a.yaml").write_text(HEAD + "extends: beside.yaml")
    assert len(read_chain(str(tmp_path / "in" / "a.yaml"))) == 2
    (tmp_path / "in" / "a.yaml").write_text(HEAD + "extends: ../base.yaml")
    assert "lies outside the project" in refused(str(tmp_path / "in" / "a.yaml"))


def test_a_circle_shows_its_chain(project: Path) -> None:
    write("recipes/top.yaml", "extends: a.yaml")
    write("recipes/a.yaml", "extends: b.yaml")
    write("recipes/b.yaml", "extends:   a.yaml")
    assert refused("recipes/top.yaml") == (
        "recipes/b.yaml:2:12: extends: goes round in a circle: a.yaml -> b.yaml -> a.yaml"
    )


def test_sixteen_bases_are_read_and_one_more_is_refused(project: Path) -> None:
    write("r0.yaml", "a: 1")
    for number in range(1, 18):
        write(f"r{number}.yaml", f"extends: r{number - 1}.yaml")
    assert len(read_chain("r16.yaml")) == 17
    assert refused("r17.yaml") == "r1.yaml:2:10: extends: more than 16 recipes one below the other"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: a", "a.yaml:1:1: missing `recipe`, the version of the recipe language\n    write `recipe: 1` on top"),
        ("name: a\nrecipe: 2", "a.yaml:2:9: recipe: must be `1`, not 2"),
        ("recipe: '1'", "a.yaml:1:9: recipe: must be `1`, not the text `1`"),
        ("recipe: true", "a.yaml:1:9: recipe: must be `1`, not true"),
    ],
)
def test_every_file_says_the_version_of_the_language(text: str, words: str, project: Path) -> None:
    Path("a.yaml").write_text(text)
    [source] = read_chain("a.yaml")
    assert str(version_problem(source)) == words
    Path("a.yaml").write_text("recipe: 1")
    assert version_problem(read_chain("a.yaml")[0]) is None
