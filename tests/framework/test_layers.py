from __future__ import annotations

from typing import Any

import pytest

from raycipe.framework.errors import Problem, RecipeError
from raycipe.framework.layers import from_layer, lay, without_nulls
from raycipe.framework.overrides import overrides_layer
from raycipe.framework.reader import read_text
from raycipe.framework.shapes import is_reference
from raycipe.framework.tree import Node, plain


def node(text: str, source: str = "low") -> Node:
    return read_text(text, source)


def laid(low: str, high: str) -> Any:
    return plain(lay(node(low), node(high, "high")))


RULES = {
    "a distribution is replaced by another": (
        "sweep: {space: {o.lr: {uniform: [0, 1]}, o.m: [1]}}",
        "sweep: {space: {o.lr: {loguniform: [1, 2]}}}",
        {"sweep": {"space": {"o.lr": {"loguniform": [1, 2]}, "o.m": [1]}}},
    ),
    "maps merge by key": ("a: {b: 1, c: 2}", "a: {c: 3, d: 4}", {"a": {"b": 1, "c": 3, "d": 4}}),
    "the same type keeps its arguments": (
        "o: {type: t, lr: 1}",
        "o: {type: t, m: 2}",
        {"o": {"type": "t", "lr": 1, "m": 2}},
    ),
    "another type drops them": ("o: {type: t, lr: 1}", "o: {type: u, m: 2}", {"o": {"type": "u", "m": 2}}),
    "no new type keeps them": ("o: {type: t, lr: 1}", "o: {m: 2}", {"o": {"type": "t", "lr": 1, "m": 2}}),
    "a first type keeps them": ("o: {lr: 1}", "o: {type: t}", {"o": {"lr": 1, "type": "t"}}),
    "a text names the same type": ("o: {type: t, lr: 1}", "o: t", {"o": {"type": "t", "lr": 1}}),
    "a text names another type": ("o: {type: t, lr: 1}", "o: u", {"o": {"type": "u"}}),
    "a text replaces a map without type": ("o: {lr: 1}", "o: u", {"o": "u"}),
    "a reference replaces a component": ("o: {type: t, lr: 1}", 'o: "${p}"', {"o": "${p}"}),
    "a map completes a text": ("o: t", "o: {lr: 1}", {"o": {"type": "t", "lr": 1}}),
    "a map of another type replaces a text": ("o: t", "o: {type: u, lr: 1}", {"o": {"type": "u", "lr": 1}}),
    "lists are replaced": ("l: [1, 2]", "l: [3]", {"l": [3]}),
    "a map that is no override replaces a list": ("l: [1, 2]", "l: {'0': 3}", {"l": {"0": 3}}),
    "a list replaces a map": ("l: {a: 1}", "l: [3]", {"l": [3]}),
    "a scalar replaces a map": ("l: {type: a}", "l: 3", {"l": 3}),
    "null replaces": ("l: {type: a}", "l: null", {"l": None}),
    "a nested component changes its type": (
        "o: {type: t, c: {type: topk, ratio: 1}}",
        "o: {c: randk}",
        {"o": {"type": "t", "c": {"type": "randk"}}},
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_laying_follows_the_table(rule: str) -> None:
    low, high, result = RULES[rule]
    assert laid(low, high) == result
    assert list(laid(low, high)) == list(result)


def test_laying_changes_neither_layer() -> None:
    low, high = node("a: {type: t, b: [1]}\nc: d"), node("a: {b: 2}\nc: {e: 1}")
    before = plain(low), plain(high)
    lay(low, high)
    assert (plain(low), plain(high)) == before


def test_laying_is_no_associative_operation() -> None:
    base, text, empty = node("o: {type: t, lr: 1}"), node("o: t"), node("o: null")
    assert plain(lay(lay(base, text), empty)) == {"o": None}
    assert plain(lay(lay(base, empty), text)) == {"o": "t"}
    assert plain(lay(base, lay(empty, text))) == {"o": {"type": "t", "lr": 1}}


def test_a_value_remembers_its_place_and_what_it_replaced() -> None:
    low = node("o: {type: t, lr: 1}\np: {type: t}\nn: 1")
    high = from_layer(node("o: {lr: 2}\n\np: {type: u}\nn: 2", "high"), "profile big")
    result = lay(lay(low, high), node("n: 3", "top"))
    lr, type_, n = result.value["o"].value["lr"], result.value["p"].value["type"], result.value["n"]
    assert (str(lr.at), lr.origin, str(lr.over.at), lr.over.origin) == ("high:1:9", "profile big", "low:1:18", "")
    assert (str(type_.at), str(type_.over.at)) == ("high:3:11", "low:2:11")
    assert (str(n.at), str(n.over.at), str(n.over.over.at)) == ("top:1:4", "high:4:4", "low:3:4")


def test_a_merged_component_stands_where_its_type_was_written() -> None:
    assert str(lay(node("o: {type: t}"), node("\no: {lr: 1}", "high")).value["o"].at) == "low:1:4"
    assert str(lay(node("o: {lr: 1}"), node("\no: {type: t}", "high")).value["o"].at) == "high:2:4"
    assert str(lay(node("o: {lr: 1}"), node("\no: {m: 1}", "high")).value["o"].at) == "low:1:4"


def test_null_takes_away_sections_and_entries_of_free_maps_only() -> None:
    text = (
        "sweep: null\nexpect: {a/b: null, c/d: '> 1'}\nresources: {custom: {x: null}, num_workers: null}\n"
        "train: {ema: null}\nmeasures: [null]"
    )
    assert plain(without_nulls(node(text))) == {
        "expect": {"c/d": "> 1"},
        "resources": {"custom": {}, "num_workers": None},
        "train": {"ema": None},
        "measures": [None],
    }
    space = "sweep: {space: {a.b: null, c.d: [1]}, objectives: {x/y: null}}"
    assert plain(without_nulls(node(space))) == {"sweep": {"space": {"c.d": [1]}, "objectives": {}}}
    assert plain(without_nulls(node("sweep: [1]\nexpect: x"))) == {"sweep": [1], "expect": "x"}


def test_a_text_with_a_reference_is_recognized() -> None:
    assert [is_reference(child) for child in node("l: ['${a}', 'x${', $a, 1, ['${a}']]").value["l"].value] == [
        True,
        True,
        False,
        False,
        False,
    ]


def override(low: str, *words: str) -> Any:
    return plain(lay(node(low), overrides_layer(words)))


def test_overrides_index_lists_and_append_to_them() -> None:
    low = "m: [{type: a, layer: x}, b]\nn: [[1, 2], 3]"
    assert override(low, "m.0.layer=y")["m"] == [{"type": "a", "layer": "y"}, "b"]
    assert override(low, "m.1.k=1")["m"][1] == {"type": "b", "k": 1}
    assert override(low, "m.0=c")["m"] == [{"type": "c"}, "b"]
    assert override(low, "m.3.k=1", "m.2=c", "m.3.type=d")["m"][2:] == ["c", {"k": 1, "type": "d"}]
    assert override(low, "n.0.1=5")["n"] == [[1, 5], 3]
    assert override(low, "m=[x]")["m"] == ["x"]
    assert override("l: [" + "0," * 12 + "]", "l.12=2", "l.2=1")["l"] == [0, 0, 1, *[0] * 9, 2]


@pytest.mark.parametrize("key", ["m.3", "m.x", "m.00", "m.9999999999999", 'm."0 1"'])
def test_a_wrong_index_names_the_lists_length(key: str) -> None:
    with pytest.raises(RecipeError) as caught:
        override("m: [a, b]", f"{key}=1", "ok=2")
    part = key.removeprefix("m.").strip('"')
    assert str(caught.value) == (
        f"override `{key}=1`: m.{part}: m is a list of 2: an entry is named by its number, and 2 appends one\n"
        "    write m.2=... to append"
    )
    assert caught.value.problems[0].code == "override"


def test_problems_of_a_layer_can_be_collected() -> None:
    problems: list[Problem] = []
    result = lay(node("m: [a]\nn: 1"), overrides_layer(["m.5=1", "n=2"]), problems)
    assert [problem.path for problem in problems] == ["m.5"]
    assert plain(result) == {"m": ["a"], "n": 2}


ONE_OF = {
    "train": ("train: {epochs: 3, batch_size: 8}", "train: {steps: 5}", {"batch_size": 8, "steps": 5}),
    "train, the other way": ("train: {steps: 3}", "train: {epochs: 5}", {"epochs": 5}),
    "an agent's train": ("train: {env_steps: 3}", "train: {iterations: 5}", {"iterations": 5}),
    "an upper null takes nothing away": ("train: {epochs: 3}", "train: {steps: null}", {"epochs": 3}),
    "a lower null is gone": ("train: {epochs: null}", "train: {steps: 5}", {"steps": 5}),
    "null and the other one in one layer": ("train: {epochs: 3}", "train: {epochs: null, steps: 5}", {"steps": 5}),
    "both in one layer stay": ("train: {steps: 8}", "train: {epochs: 1, steps: 5}", {"epochs": 1, "steps": 5}),
    "objectives": (
        "sweep: {metric: a/b, mode: min, trials: 3}",
        "sweep: {objectives: {a/b: min, c/d: max}}",
        {"trials": 3, "objectives": {"a/b": "min", "c/d": "max"}},
    ),
    "one metric": (
        "sweep: {objectives: {a/b: min, c/d: max}}",
        "sweep: {metric: a/b, mode: min}",
        {"metric": "a/b", "mode": "min"},
    ),
}


@pytest.mark.parametrize("rule", ONE_OF)
def test_an_upper_layers_choice_takes_the_excluded_key_away(rule: str) -> None:
    low, high, result = ONE_OF[rule]
    section = low.partition(":")[0]
    assert plain(without_nulls(lay(node(low), node(high, "high"))))[section] == result


def test_a_recipes_profile_takes_away_what_its_bases_profile_chose() -> None:
    low, high = "profiles: {big: {train: {epochs: 3}}}", "profiles: {big: {train: {steps: 5}}}"
    assert laid(low, high) == {"profiles": {"big": {"train": {"steps": 5}}}}
    elsewhere = "model: {train: {epochs: 3}}", "model: {train: {steps: 5}}"
    assert laid(*elsewhere) == {"model": {"train": {"epochs": 3, "steps": 5}}}
