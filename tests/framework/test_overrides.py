from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raycipe.framework.errors import Problem, RecipeError
from raycipe.framework.layers import lay
from raycipe.framework.overrides import dotted, overrides_layer
from raycipe.framework.reader import read_text
from raycipe.framework.tree import Node, plain


def layer(*words: str) -> Any:
    return plain(overrides_layer(words))


def refused(*words: str) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        overrides_layer(words)
    return [str(problem) for problem in caught.value.problems]


def test_words_become_one_tree_of_typed_values() -> None:
    assert layer("optimizer.lr=1e-3", "train.epochs=3", "model.hidden=[64, 64]", "track=null", "sweep=", "a=b=c") == {
        "a": "b=c",
        "model": {"hidden": [64, 64]},
        "optimizer": {"lr": 1e-3},
        "sweep": None,
        "track": None,
        "train": {"epochs": 3},
    }


def test_paths_may_hold_metric_names_indices_and_quoted_parts() -> None:
    assert layer(
        "expect.test/accuracy=>= 0.5", 'sweep.space."optimizer.lr"=[1, 2]', "measures.0.layer=x", r'expect."a\"\\/b"=<1'
    ) == {
        "expect": {"test/accuracy": ">= 0.5", 'a"\\/b': "<1"},
        "sweep": {"space": {"optimizer.lr": [1, 2]}},
        "measures": {"0": {"layer": "x"}},
    }


def test_map_values_are_taken_apart_and_merge() -> None:
    assert layer("o={type: t, c: {d: 1}}", "o.c.e=2", "e={}") == {"e": {}, "o": {"type": "t", "c": {"d": 1, "e": 2}}}


def test_a_text_above_an_argument_is_the_components_type() -> None:
    assert layer("o=sgd", "o.lr=1") == layer("o.lr=1", "o=sgd") == {"o": {"type": "sgd", "lr": 1}}
    assert layer("o=t", "o.c.d=1", "o.c=u") == {"o": {"type": "t", "c": {"type": "u", "d": 1}}}


def test_maps_are_patches_and_every_value_lies_at_its_word() -> None:
    root = overrides_layer(["a.b=[1]", "a.c={d: 2}"])
    a = root.value["a"]
    assert root.patch
    assert a.patch
    assert a.value["c"].patch
    assert str(a.value["b"].value[0].at) == "override `a.b=[1]`"
    assert str(a.value["c"].value["d"].key_at) == "override `a.c={d: 2}`"
    assert {a.origin, a.value["b"].origin, a.value["b"].value[0].origin} == {"override"}


WRONG = {
    ("lr",): "override `lr`: an override is written KEY=VALUE\n    for example optimizer.lr=0.3",
    ("=1",): "override `=1`: the text before `=` is no path",
    ("a..b=1",): "override `a..b=1`: the text before `=` is no path",
    ("+a=1",): "override `+a=1`: the text before `=` is no path",
    ("a.=1",): "override `a.=1`: the text before `=` is no path",
    ('a."b=1',): 'override `a."b=1`: the text before `=` is no path',
    ("expect.min(a/b)=1",): (
        "override `expect.min(a/b)=1`: the text before `=` is no path\n"
        '    words and numbers joined by dots; quote others, as in expect."min(val/loss)"'
    ),
    ("a=1", "a=2"): "override `a=2`: a: is set twice\n    also by override `a=1`",
    ("a={b: 1}", "a.b=2"): "override `a.b=2`: a.b: is set twice\n    also by override `a={b: 1}`",
    ("a=t", "a.type=u", "a.x=1"): "override `a.type=u`: a.type: is set twice\n    also by override `a=t`",
    ("a=1", "a.b=2"): "override `a=1`: a: is set as a whole and in part\n    in part by override `a.b=2`",
    ("a.b.c=2", "a=[1]"): "override `a=[1]`: a: is set as a whole and in part\n    in part by override `a.b.c=2`",
    ("a=t", "a.type.b=1"): "override `a=t`: a: is set as a whole and in part\n    in part by override `a.type.b=1`",
    ("a=: x",): "override `a=: x`: mapping values are not allowed ",
    (
        "extends=b.yaml",
    ): "override `extends=b.yaml`: extends: an override can't change `extends`\n    set the value itself",
    ("profiles.a.b=1",): "override `profiles.a.b=1`: profiles: an override can't change `profiles`",
    ("a\udcff=1",): "override `a\\udcff=1`: the character U+DCFF is not allowed here",
    (".".join(["a"] * 65) + "=1",): "override `" + "a." * 28 + "a...`: nested deeper than 64 levels",
}


@pytest.mark.parametrize("words", WRONG, ids=lambda words: " ".join(words)[:20])
def test_a_wrong_word_is_named(words: tuple[str, ...]) -> None:
    found = refused(*words)
    assert len(found) == 1
    assert found[0].startswith(WRONG[words])


def test_all_wrong_words_are_shown_and_the_others_set() -> None:
    problems: list[Problem] = []
    assert plain(overrides_layer(["a", "b=*x", "c=1", "c=2", "d=3"], problems)) == {"c": 1, "d": 3}
    assert [problem.code for problem in problems] == ["override", "alias", "override"]


def test_a_path_of_sixty_four_parts_is_set() -> None:
    assert layer(".".join(["a"] * 64) + "=1")


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4))
def test_a_dotted_path_is_read_back_as_the_same_path(path: list[str]) -> None:
    word = f"x.{dotted(path)}=1"
    problems: list[Problem] = []
    value: Any = plain(overrides_layer([word], problems))
    if problems:
        assert [problem.code for problem in problems] == ["encoding"]
        return
    for part in ("x", *path):
        value = value[part]
    assert value == 1


LOW = "o: {type: t, lr: 1, c: {type: topk, ratio: 1}}\nm: [{type: a, k: 1}, b]\ns: x\nf: {p: 1, q: {r: 2}}"
WORDS = st.lists(
    st.builds(
        "{}={}".format,
        st.sampled_from(["o", "o.type", "o.lr", "o.c", "o.c.type", "o.c.ratio", "m", "m.0", "m.0.k", "m.2", "m.3.k"])
        | st.sampled_from(["s", "s.k", "f", "f.q", "f.q.r", "f.z"]),
        st.sampled_from(["1", "t", "u", "[1]", "{type: u, k: 2}", "{k: 2}", "{}", "", "${s}", "{q: {r: 3}}"]),
    ),
    max_size=6,
)


def outcome(words: list[str]) -> str:
    problems: list[Problem] = []
    root: Node = lay(read_text(LOW, "low"), overrides_layer(words, problems), problems)
    return "wrong" if problems else str(plain(root))


@settings(max_examples=250)
@given(WORDS, st.randoms(use_true_random=False))
def test_overrides_do_not_depend_on_their_order(words: list[str], shuffle: random.Random) -> None:
    other = list(words)
    shuffle.shuffle(other)
    assert outcome(words) == outcome(other)
