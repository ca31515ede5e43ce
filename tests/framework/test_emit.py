from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from raycipe.framework.emit import dump
from raycipe.framework.reader import read_text
from raycipe.framework.tree import plain


def read(text: str) -> Any:
    return plain(read_text(text, "r"))


def test_a_recipe_is_written_as_people_write_it() -> None:
    recipe = {
        "recipe": 1,
        "name": "quickstart",
        "about": "Handwritten digits, two workers.",
        "data": {"type": "digits"},
        "model": {"type": "mlp", "hidden": [128, 128]},
        "optimizer": {"type": "sgd", "lr": 1e-5, "momentum": 0.9, "schedule": None, "nesterov": False},
        "measures": [{"type": "a", "bins": [[1, 2], [3]]}, "b", {}, []],
        "expect": {"test/accuracy": ">= 0.95"},
        "paper": {},
        "track": [],
    }
    assert dump(recipe) == (
        "recipe: 1\n"
        "name: quickstart\n"
        'about: "Handwritten digits, two workers."\n'
        "data:\n"
        "  type: digits\n"
        "model:\n"
        "  type: mlp\n"
        "  hidden: [128, 128]\n"
        "optimizer:\n"
        "  type: sgd\n"
        "  lr: 1.0e-05\n"
        "  momentum: 0.9\n"
        "  schedule: null\n"
        "  nesterov: false\n"
        "measures:\n"
        "  - type: a\n"
        "    bins:\n"
        "      - [1, 2]\n"
        "      - [3]\n"
        "  - b\n"
        "  - {}\n"
        "  - []\n"
        "expect:\n"
        '  test/accuracy: ">= 0.95"\n'
        "paper: {}\n"
        "track: []\n"
    )
    assert read(dump(recipe)) == recipe


@pytest.mark.parametrize(
    "text", ["1", "1e3", "null", "", "~", "true", "on", "No", "y", ".inf", "0x1", " a", "a ", "a: b"]
)
def test_text_that_could_be_read_as_something_else_is_quoted(text: str) -> None:
    assert dump({"k": text}) == f'k: "{text}"\n'
    assert read(dump({"k": text, text: 1})) == {"k": text, text: 1}


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**63, -(2**63) - 1])
def test_numbers_that_no_recipe_can_hold_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"finite|64 bits"):
        dump({"k": value})


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="a recipe can't hold tuple"):
        dump({"k": (1, 2)})


def test_long_keys_and_long_lists_are_read_back() -> None:
    data = {"k" * 5000: {"é\n" * 600: [list(range(200)), "x" * 5000]}}
    assert read(dump(data)) == data


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    [
        "# x",
        "- a",
        "? a",
        "a #b",
        "'",
        '"',
        "\\",
        "a\tb",
        "\x00",
        "\x85",
        "\u2028",
        "\ufeff",
        "${a}",
        "!x",
        "&a",
        "*a",
        "%x",
    ]
)
SCALARS = (
    TEXTS
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none()
)
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4))


@given(st.dictionaries(TEXTS, TREES, max_size=4))
@example({})
@example({"": {"": [{"": [[]]}]}})
@example({"a": -0.0, "b": 5e-324, "c": 1.7976931348623157e308, "d": 1e16})
def test_what_is_written_is_read_back_with_the_same_types(data: dict[str, Any]) -> None:
    assert repr(read(dump(data))) == repr(data)
    assert dump(read(dump(data))) == dump(data)


@given(st.dictionaries(TEXTS, TREES, max_size=4))
def test_yaml_1_1_reads_the_same_numbers_words_and_texts(data: dict[str, Any]) -> None:
    assert repr(yaml.safe_load(dump(data))) == repr(data)
