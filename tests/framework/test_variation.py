from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raycipe.framework.check import check
from raycipe.framework.errors import RecipeError
from raycipe.framework.recipe import Recipe, load
from raycipe.framework.variation import vary

TEXT = """\
recipe: 1
name: base
data: {type: csv, path: toy.csv, target: y}
model: {type: mlp, hidden: [8]}
task: classification
optimizer: {type: adamw, lr: 1e-2, betas: [0.8, 0.9]}
train: {epochs: 3, batch_size: 16, eval_batch_size: "${train.batch_size}"}
measures: [parameter_count]
resources: {num_workers: 0}
expect: {test/accuracy: ">= 0.5"}
sweep: {space: {optimizer.lr: [1e-3, 1e-2]}, metric: val/loss, mode: min, trials: 2}
profiles: {smoke: {train: {epochs: 1}}}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    (tmp_path / "toy.csv").write_text("a,y\n" + "1,0\n2,1\n" * 20)
    (tmp_path / "base.yaml").write_text(TEXT)
    return check(load(str(tmp_path / "base.yaml")))


def test_changes_lie_over_the_recipe_and_references_follow(recipe: Recipe) -> None:
    varied = vary(recipe, {"train.batch_size": 8, "optimizer.lr": 0.5, "seed": 7})
    assert varied.plain["train"]["batch_size"] == varied.plain["train"]["eval_batch_size"] == 8
    assert varied.plain["optimizer"]["lr"] == 0.5
    assert varied.plain["optimizer"]["betas"] == [0.8, 0.9]
    assert varied.plain["seed"] == 7
    assert varied.hash != recipe.hash


def test_sections_about_the_whole_are_set_aside(recipe: Recipe) -> None:
    varied = vary(recipe, {})
    assert not varied.plain.keys() & {"sweep", "expect", "profiles"}
    assert varied.hash == recipe.hash  # they do not decide the numbers


def test_another_type_drops_the_arguments_of_the_old_one(recipe: Recipe) -> None:
    varied = vary(recipe, {"optimizer.lr": 0.1, "optimizer.type": "sgd"})
    assert varied.plain["optimizer"]["type"] == "sgd"
    assert varied.plain["optimizer"]["lr"] == 0.1
    assert "betas" not in varied.plain["optimizer"]


@pytest.mark.parametrize(
    ("changes", "path", "value"),
    [
        ({"model": {"type": "linear"}}, "model", {"type": "linear"}),
        ({"model": "linear"}, "model", {"type": "linear"}),
        ({"model.hidden": [4, 4]}, "model.hidden", [4, 4]),
        ({"measures.0": "weight_norms"}, "measures.0.type", "weight_norms"),
        ({"train.steps": 5}, "train.epochs", None),
    ],
)
def test_a_value_replaces_what_stood_there(recipe: Recipe, changes: dict[str, Any], path: str, value: Any) -> None:
    found: Any = vary(recipe, changes).plain
    for word in path.split("."):
        found = found[int(word)] if isinstance(found, list) else found.get(word)
    if isinstance(value, dict):
        assert found.items() >= value.items()
        assert "hidden" not in found
    else:
        assert found == value


def test_none_removes_a_section(recipe: Recipe) -> None:
    assert "measures" not in vary(recipe, {"measures": None}).plain


def test_the_text_is_a_recipe_that_runs_from_any_folder(recipe: Recipe, tmp_path: Path) -> None:
    varied = vary(recipe, {"optimizer.lr": 0.5})
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "elsewhere" / "best.yaml"
    file.write_bytes(varied.text)
    again = check(load(str(file)), data_root=str(tmp_path))
    assert again.plain == varied.plain
    assert again.hash == vary(recipe, {"optimizer.lr": 0.5}, data_root=str(tmp_path)).hash


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer.lr": -1}, "change of optimizer.lr: optimizer.lr: must be a number >= 0, not -1"),
        ({"optimizer.rate": 1}, "unknown argument"),
        ({"measures.4": "weight_norms"}, "measures is a list of 1"),
    ],
)
def test_values_that_the_recipe_cannot_hold_are_refused(recipe: Recipe, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        vary(recipe, changes)
