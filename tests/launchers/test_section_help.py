"""What `raycipe show SECTION` prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from raycipe.framework import catalogue, distributions, expect
from raycipe.framework.check import check_file
from raycipe.launchers.cli import raycipe
from raycipe.launchers.section_help import RULES

Lab = Callable[..., Path]
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "recipe.md"
AGENT = '''
from raycipe.framework.contracts import Agent


@register
class Thing(Agent):
    """A thing."""

    def config(self, *a: Any) -> Any:
        return a
'''


def told(name: str, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert raycipe(["show", name, *more]) == 0
    return capsys.readouterr().out


def test_every_section_of_the_book_and_of_the_schema_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    table = PAGE.read_text().partition("## Sections")[2].partition("## Layers")[0]
    in_book = {name for row in table.splitlines() if row.startswith("| `") for name in re.findall(r"`(\w+)`", row[:60])}
    in_schema = set(catalogue.load()["$defs"]["full"]["properties"])
    assert len(in_book) > 15 and in_book <= in_schema
    for name in sorted(in_schema):
        lines = told(name, capsys).splitlines()
        assert lines[0] == name
        assert re.match(r"  \S", lines[1]), f"{name} has no description"
        assert len(lines) > 2, f"{name} says nothing about what can stand there"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("recipe", "\n  `1`, required\n"),
        ("name", "\n  1 to 64 of a-z 0-9 _ . - that begin with a letter or digit"),
        ("about", "\n  text\n"),
        ("paper", "year     an integer, 1600 <= year <= 3000\n"),
        ("seed", "\n  an integer >= 0, default 0\n"),
        ("data", "one of:\n\ndata/"),
        ("optimizer", "\noptimizers/sgd              Stochastic gradient descent"),
        ("measures", "a list, each one of:\n\nmeasures/"),
        ("env", "An environment, or a family of them with tasks.\n\none of:\n\nenvs/gymnasium   An env"),
        ("train", "  epochs              an integer >= 1\n"),
        (
            "train.keep_best",
            "also keep the best checkpoints\n  a map or null, default null\n\nkeys:\n  metric  text, required",
        ),
        ("train.keep_best.mode", "\n  `min` or `max`\n"),
        ("train.ema", "\n  a number or null, 0 < ema < 1, default null\n"),
        ("resources", "  cpus_per_worker    a number, 0 < cpus_per_worker <= 10000, default 1\n"),
        ("expect", 'test/accuracy: ">= 0.95"'),
        ("start", "  text or a map\n\nkeys:\n  run         text, required\n"),
        ("track", "tags: a map"),
        ("sweep", "{loguniform: [1e-3, 1.0]}"),
        ("profiles", "launch RECIPE --profile NAME"),
        ("extends", "extends: quickstart"),
    ],
)
def test_a_section_or_key_tells_what_can_stand_there(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in told(name, capsys)


def test_the_training_of_an_agent_has_keys_of_its_own(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lab({"agents/thing": AGENT}, add=False)
    out = told("train", capsys, "--components", str(folder))
    assert "keys with an agent:" in out and "env_steps" in out


def test_the_claims_shown_are_claims() -> None:
    lines = [line.partition(":") for line in RULES["expect"].splitlines() if line.startswith("  ")]
    assert len(lines) == 4
    for metric, _, rest in lines:
        assert expect.read_metric(metric.strip()) is not None
        assert not isinstance(expect.read(rest.split('"')[1]), str)


def test_the_distributions_shown_are_all_that_there_are() -> None:
    text = RULES["sweep"]
    assert all(re.search(rf"\b{form}\b", text) for form in distributions.FORMS)


@pytest.mark.parametrize("section", ["sweep", "profiles", "extends", "track"])
def test_the_examples_shown_pass_the_check(section: str, tmp_path: Path) -> None:
    text = "recipe: 1\nname: a\n"
    if section != "extends":
        text += "data: digits\nmodel: mlp\ntask: classification\noptimizer: sgd\ntrain: {batch_size: 64}\n"
    examples = RULES[section].partition("example:\n")[2].splitlines()
    assert examples
    for example in examples:
        (tmp_path / "a.yaml").write_text(text + example.strip() + "\n")
        assert [str(problem) for problem in check_file(str(tmp_path / "a.yaml"), catalogue.load())] == []
