from __future__ import annotations

import hashlib
import random
import time
from pathlib import Path
from typing import Any

import pytest
from omegaconf.errors import ReadonlyConfigError

from raycipe.framework.catalogue import load as load_schema
from raycipe.framework.check import check, check_file
from raycipe.framework.emit import dump
from raycipe.framework.errors import RecipeError
from raycipe.framework.recipe import load
from raycipe.framework.tree import plain

RECIPE = """\
recipe: 1
name: a
seed: 3
data: digits
model: {type: mlp, hidden: [8]}
task: classification
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 2, batch_size: 64}
expect: {test/accuracy: ">= 0.9"}
profiles:
  smoke: {train: {epochs: 1}}
  big: {optimizer: {type: adamw}, train: {batch_size: 128, epochs: 8}, expect: null}
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "a.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def values(*overrides: str, profiles: tuple[str, ...] = (), path: str = "a.yaml") -> Any:
    merged = load(path, overrides, profiles)
    assert [str(problem) for problem in merged.problems] == []
    return plain(merged.node)


def problems(text: str, *overrides: str, profiles: tuple[str, ...] = ()) -> list[str]:
    Path("a.yaml").write_text(text)
    return [str(problem) for problem in load("a.yaml", overrides, profiles).problems]


def test_layers_lie_in_the_order_base_recipe_profiles_overrides() -> None:
    Path("b.yaml").write_text(
        "recipe: 1\nextends: a.yaml\nname: b\noptimizer: {lr: 0.2}\nprofiles: {smoke: {seed: 9}, big: {seed: 5}}\n"
    )
    assert values(path="b.yaml")["optimizer"] == {"type": "sgd", "lr": 0.2}
    smoke = values(path="b.yaml", profiles=("smoke",))
    assert (smoke["name"], smoke["seed"], smoke["train"]) == ("b", 9, {"epochs": 1, "batch_size": 64})
    both = values("train.batch_size=32", path="b.yaml", profiles=("big", "smoke"))
    assert both["train"] == {"epochs": 1, "batch_size": 32}
    assert both["seed"] == 9
    assert both["optimizer"] == {"type": "adamw"}
    assert "expect" not in both
    assert values(path="b.yaml", profiles=("smoke", "big"))["seed"] == 5
    assert not {"extends", "profiles"} & set(both)


def test_a_base_gives_its_paper_but_not_its_sentence() -> None:
    Path("a.yaml").write_text(RECIPE + "about: A network.\npaper: {title: On networks}\n")
    Path("b.yaml").write_text("recipe: 1\nextends: a.yaml\n")
    Path("c.yaml").write_text("recipe: 1\nextends: b.yaml\nabout: Another network.\n")
    assert values()["about"] == "A network."
    assert "about" not in values(path="b.yaml")
    assert values(path="b.yaml")["paper"] == {"title": "On networks"}
    assert values(path="c.yaml")["about"] == "Another network."


def test_references_see_all_layers() -> None:
    Path("b.yaml").write_text(
        "recipe: 1\nextends: a.yaml\nabout: lr ${optimizer.lr}, ${train.epochs} epochs\n"
        "profiles: {big: {seed: '${train.epochs}'}}\n"
    )
    assert values(path="b.yaml")["about"] == "lr 0.1, 2 epochs"
    both = values("optimizer.lr=0.5", path="b.yaml", profiles=("big",))
    assert (both["about"], both["seed"]) == ("lr 0.5, 8 epochs", 8)


def test_null_removes_sections_entries_and_profiles() -> None:
    assert "expect" not in values("expect=null")
    assert values("expect.test/accuracy=null")["expect"] == {}
    Path("b.yaml").write_text("recipe: 1\nextends: a.yaml\nprofiles: {smoke: null}\n")
    merged = load("b.yaml", (), ("smoke",))
    assert [str(problem) for problem in merged.problems] == [
        "--profile smoke: no profile `smoke`\n    known: big",
    ]
    assert [name for name, _ in merged.profile_variants()] == ["big"]


def test_each_profile_is_a_variant_of_its_own() -> None:
    merged = load("a.yaml", ["seed=7"], ["big"])
    variants = {name: plain(variant.node) for name, variant in merged.profile_variants()}
    assert {name: (v["train"]["epochs"], v["seed"], v["optimizer"]["type"]) for name, v in variants.items()} == {
        "smoke": (1, 7, "sgd"),
        "big": (8, 7, "adamw"),
    }
    assert plain(merged.node)["train"]["epochs"] == 8
    assert merged.profiles == ["big"]


def test_a_variants_mistakes_are_its_own() -> None:
    Path("a.yaml").write_text(RECIPE + "  wrong: {seed: '${nope}'}\n")
    merged = load("a.yaml", ["model.hidden.7=1"])
    assert [problem.path for problem in merged.problems] == ["model.hidden.7"]
    found = {name: [problem.path for problem in variant.problems] for name, variant in merged.profile_variants()}
    assert found == {
        "smoke": ["model.hidden.7"],
        "big": ["model.hidden.7"],
        "wrong": ["model.hidden.7", "seed"],
    }


def test_a_profile_that_grows_too_large_is_a_mistake_of_that_profile() -> None:
    tens = "".join(f"  t{n}: [{', '.join([repr(f'${{paper.t{n - 1}}}')] * 10)}]\n" for n in range(1, 6))
    Path("a.yaml").write_text(RECIPE + "  large:\n    paper:\n      t0: 1\n" + tens.replace("  t", "      t"))
    merged = load("a.yaml")
    assert merged.problems == []
    assert {name: [p.code for p in variant.problems] for name, variant in merged.profile_variants()}["large"] == [
        "size"
    ]


def test_wrong_profiles_are_refused_where_they_stand() -> None:
    text = RECIPE + "  Big: {}\n  none: [1]\n  deep: {name: x, profiles: {}, recipe: 1, extends: b.yaml}\n"
    assert problems(text) == [
        "a.yaml:13:3: profiles.Big: the name of a profile holds a-z, 0-9 and _ only",
        "a.yaml:14:9: profiles.none: must be a map of sections, not a list",
        "a.yaml:15:33: profiles.deep.recipe: a profile can't change `recipe`",
        "a.yaml:15:10: profiles.deep.name: a profile can't change `name`",
        "a.yaml:15:44: profiles.deep.extends: a profile can't change `extends`",
        "a.yaml:15:19: profiles.deep.profiles: a profile can't change `profiles`",
    ]
    assert problems("recipe: 1\nprofiles: 3") == ["a.yaml:2:11: profiles: must be a map of profiles, not 3"]


def test_an_unknown_profile_is_named_with_the_nearest() -> None:
    assert problems(RECIPE, profiles=("smok", "xyz")) == [
        "--profile smok: no profile `smok`\n    did you mean `smoke`?",
        "--profile xyz: no profile `xyz`\n    known: smoke, big",
    ]
    assert problems("recipe: 1", profiles=("smoke",)) == [
        "--profile smoke: no profile `smoke`\n    the recipe has no profiles"
    ]


def test_mistakes_of_all_layers_come_together() -> None:
    Path("base.yaml").write_text("name: base")
    found = problems("recipe: 2\nextends: base.yaml\nabout: ${nope}", "x", "a=1", "a=2", profiles=("p",))
    assert [words.split(": ")[0] for words in found] == [
        "a.yaml:1:9",
        "base.yaml:1:1",
        "override `x`",
        "override `a=2`",
        "--profile p",
        "a.yaml:3:8",
    ]


def test_bases_are_told_with_their_hashes() -> None:
    Path("b.yaml").write_text("recipe: 1\nextends: a.yaml\n")
    merged = load("b.yaml")
    assert merged.bases == [("a.yaml", hashlib.sha256(RECIPE.encode()).hexdigest())]
    assert merged.text == b"recipe: 1\nextends: a.yaml\n"


def test_a_checked_recipe_tells_where_each_value_comes_from() -> None:
    recipe = check(load("a.yaml", ["optimizer.lr=0.5"], ["big"]))
    rows = {path: (value, origin) for path, value, origin in recipe.origins()}
    assert rows["seed"] == ("3", "a.yaml:3:7")
    assert rows["optimizer.lr"] == ("0.5", "override")
    assert rows["optimizer.type"] == ("adamw", "profile big (a.yaml:12:27) (over a.yaml:7:19)")
    assert rows["train.epochs"] == ("8", "profile big (a.yaml:12:68) (over a.yaml:8:17)")
    assert rows["model.hidden"] == ("[8]", "a.yaml:5:28")
    assert rows["model.activation"][1] == "default of models/mlp"


def test_the_config_is_a_read_only_view_of_the_values() -> None:
    recipe = check(load("a.yaml", ["about=${name}!"]))
    assert recipe.config.optimizer.lr == 0.1
    assert recipe.config.about == "a!"
    with pytest.raises(ReadonlyConfigError):
        recipe.config.seed = 4
    assert (recipe.name, recipe.path, recipe.overrides, recipe.profiles) == ("a", "a.yaml", ["about=${name}!"], [])


def test_resolved_values_written_and_read_again_are_the_same_recipe() -> None:
    for profiles in ([], ["smoke"], ["big"]):
        recipe = check(load("a.yaml", ["optimizer.lr=0.5"], profiles))
        Path("resolved.yaml").write_text(dump(recipe.plain))
        again = check(load("resolved.yaml"))
        assert again.plain == recipe.plain
        assert again.hash == recipe.hash
        assert dump(again.plain) == dump(recipe.plain)


MARKS = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    ",",
    "\n",
    "  ",
    "- ",
    "&a ",
    "*a",
    "!t ",
    "${",
    "}",
    "'",
    '"',
    "#",
    "|",
    ">",
    "null",
]
SPLICES = [
    "recipe: 1",
    "type",
    "extends: a.yaml",
    "profiles:",
    "${train.epochs}",
    "smoke: ",
    "<<: ",
    "\t",
    "1e3",
    "é",
    "~",
]


def mutated(text: str, draw: random.Random) -> str:
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(text) + 1)
        end = min(len(text), start + draw.choice([0, 0, 1, 2, 8, 40]))
        piece = draw.choice([*MARKS, *SPLICES, text[start : start + 30], ""])
        text = text[:start] + piece + text[end:]
    return text


def test_mutated_recipes_are_read_or_refused_and_open_no_other_file(watch: Any, project: Path) -> None:
    draw = random.Random(5)
    words = [
        "optimizer.lr=0.5",
        "measures.0=x",
        "model.hidden.1=3",
        "train={epochs: 4}",
        "optimizer=adamw",
        "o=${a}",
        "x",
        "a.b=[",
    ]
    load("a.yaml", ["a.b.c=1"], ["nowhere"])  # whatever is imported at first use
    outcomes = set()
    for _ in range(400):
        Path("m.yaml").write_text(mutated(RECIPE, draw))
        overrides = draw.sample(words, draw.randint(0, 3))
        started = time.process_time()
        with watch() as seen:
            try:
                merged = load("m.yaml", overrides, draw.choice([[], ["smoke"], ["big", "smoke"]]))
                found = [*merged.problems, *(p for _, variant in merged.profile_variants() for p in variant.problems)]
            except RecipeError as error:
                found = error.problems
                assert found
        assert time.process_time() - started < 1
        outcomes.add(bool(found))
        assert all(str(problem.at) and problem.message for problem in found)
        allowed = ("m.yaml", "a.yaml", str(project))
        assert [event for event in seen if not event.removeprefix("open ").startswith(allowed)] == []
    assert outcomes == {False, True}


def test_what_no_file_says_is_missing_in_the_one_that_is_launched(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("recipe: 1\ndata: digits\n")
    (tmp_path / "child.yaml").write_text("recipe: 1\nextends: base.yaml\n")
    [problem] = [
        found for found in check_file(str(tmp_path / "child.yaml"), load_schema()) if "`name`" in found.message
    ]
    assert str(problem.at) == f"{tmp_path / 'child.yaml'}:1:1"
