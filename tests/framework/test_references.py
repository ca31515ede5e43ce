from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from raycipe.framework.emit import dump
from raycipe.framework.errors import Problem, RecipeError
from raycipe.framework.layers import from_layer, lay
from raycipe.framework.reader import read_text
from raycipe.framework.references import resolve
from raycipe.framework.shapes import is_reference
from raycipe.framework.tree import plain


def resolved(text: str) -> Any:
    return plain(resolve(read_text(text, "r")))


def refused(text: str) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        resolve(read_text(text, "r"))
    return [str(problem) for problem in caught.value.problems]


def test_a_reference_alone_takes_the_value_with_its_type() -> None:
    text = "a: {b: 1, c: [x, {d: null}], e: 1e-3, f: true}\n"
    assert resolved(text + "g: ${a.b}\nh: ${a.c}\ni: ${ a.c.1 }\nj: ${a.c.1.d}\nk: ${a.e}\nl: '${a.f}'\nm: ${a}")[
        "m"
    ] == {
        "b": 1,
        "c": ["x", {"d": None}],
        "e": 1e-3,
        "f": True,
    }
    assert resolved(text + "g: [{h: '${a.c}'}, '${a.b}']")["g"] == [{"h": ["x", {"d": None}]}, 1]
    assert resolved("a: {test/x: 1, b-c: 2, d@e: 3}\nb: ['${a.test/x}', '${a.b-c}', '${a.d@e}']")["b"] == [1, 2, 3]


def test_inside_a_text_texts_and_numbers_are_filled_in() -> None:
    text = "a: x\nb: 3\nc: 1e-5\nd: ${a}-${b}/${ c }!\ne: '  ${b}'\nf: $${b}\ng: '${b}${b}'"
    assert resolved(text) == {
        "a": "x",
        "b": 3,
        "c": 1e-5,
        "d": "x-3/1e-05!",
        "e": "  3",
        "f": "$3",
        "g": "33",
    }


def test_references_lead_through_references() -> None:
    assert resolved("a: ${b}\nb: ${c.d}\nc: ${e}\ne: {d: [1, 2]}\nf: ${c.d.1}\ng: v${f}") == {
        "a": [1, 2],
        "b": [1, 2],
        "c": {"d": [1, 2]},
        "e": {"d": [1, 2]},
        "f": 2,
        "g": "v2",
    }
    assert resolved("a: {b: 1, c: '${a.b}'}")["a"] == {"b": 1, "c": 1}
    assert resolved("q: ${s}\ns: {k: '${q.z}', z: 1}")["q"] == {"k": 1, "z": 1}


def test_a_reference_keeps_its_place_and_tells_where_its_value_is_from() -> None:
    low = read_text("train: {x: -1}\no: 5", "base.yaml")
    high = from_layer(read_text("\no: ${train.x}\np: v${train.x}", "r.yaml"), "profile p")
    root = resolve(lay(low, high))
    node = root.value["o"]
    assert (str(node.at), str(node.key_at), node.origin, str(node.over.at)) == (
        "r.yaml:2:4",
        "r.yaml:2:1",
        "profile p",
        "base.yaml:2:4",
    )
    assert node.via == "from `${train.x}`, base.yaml:1:12"
    assert root.value["p"].via == "from `v${train.x}`"
    assert root.value["train"] is low.value["train"]


ONLY = "only a path to another value may stand in ${...}"
WRONG = {
    "missing": ("a: ${c.bb}\nc: {b: 1}", "r:1:4: a: no value `c.bb`\n    did you mean `c.b`?"),
    "missing far": (
        "a: ${c.zzz}\nc: {b: 1, d: 2}",
        "r:1:4: a: no value `c.zzz`\n    only a value that the recipe writes can be named: b, d",
    ),
    "missing on top": (
        "aaa: ${xyz}",
        "r:1:6: aaa: no value `xyz`\n    only a value that the recipe writes can be named: aaa",
    ),
    "escapes": (
        '"a\\e[31m": ${c}',
        "r:1:12: a\\x1b[31m: no value `c`\n    only a value that the recipe writes can be named: a\\x1b[31m",
    ),
    "missing in nothing": ("a: ${c.b}\nc: {}", "r:1:4: a: no value `c.b`\n    `c` is empty"),
    "below a scalar": ("a: ${c.b.d}\nc: {b: 1}", "r:1:4: a: no value `c.b.d`\n    `c.b` is 1"),
    "beyond a list": ("a: ${c.2}\nc: [1, 2]", "r:1:4: a: no value `c.2`\n    `c` is a list of 2"),
    "padded index": ("a: ${c.01}\nc: [1, 2]", "r:1:4: a: no value `c.01`"),
    "resolver": ("a: ${oc.env:HOME}", f"r:1:4: a: {ONLY}"),
    "unfinished": ("a: x${b", f"r:1:4: a: {ONLY}"),
    "nested": ("a: '${b${c}}'", f"r:1:4: a: {ONLY}"),
    "relative": ("a: ${.b}", f"r:1:4: a: {ONLY}"),
    "brackets": ("a: '${b[0]}'", f"r:1:4: a: {ONLY}"),
    "empty": ("a: ${}", f"r:1:4: a: {ONLY}"),
    "escaped": (
        "a: '\\${b}'\nb: {}",
        "r:1:4: a: a map can't stand inside a text: `${b}`\n    only text and numbers can",
    ),
    "assembled": ("a: $\nb: ${a}{c}", f"r:2:4: b: {ONLY}"),
    "null in text": (
        "a: null\nb: x${a}",
        "r:2:4: b: null can't stand inside a text: `${a}`\n    only text and numbers can",
    ),
    "boolean in text": ("a: true\nb: x${a}", "r:2:4: b: true can't stand inside a text: `${a}`"),
    "list in text": ("a: [1]\nb: x${a}", "r:2:4: b: a list can't stand inside a text: `${a}`"),
    "itself": ("a: ${a}", "r:1:4: a: goes round in a circle: a -> a"),
    "each other": ("a: ${b}\nb: x${c}\nc: ${a}", "r:3:4: c: goes round in a circle: a -> b -> c -> a"),
    "own map": ("a: {b: {c: '${a}'}}", "r:1:12: a.b.c: goes round in a circle: a -> a.b.c -> a"),
    "own list": ("a: ${b.d.0}\nb: {d: ['${b}']}", "r:2:9: b.d.0: goes round in a circle: b.d.0 -> b.d.0"),
    "own part": ("b: ${b.x}", "r:1:4: b: goes round in a circle: `b.x` lies inside this value"),
    "text on the way": (
        "a: ${c.d}\nc: x${b}\nb: 1",
        "r:1:4: a: leads through a text\n    `x${b}` has no values below it",
    ),
    "profiles": ("a: ${profiles.b}\nprofiles: {b: 1}", "r:1:4: a: a reference can't point into `profiles`"),
    "sweep": ("a: ${sweep.b}\nsweep: {b: 1}", "r:1:4: a: a reference can't point into `sweep`"),
    "swept": (
        "o: {lr: 1}\nsweep: {space: {o.lr: [1], o.m: ['${o.lr}']}}",
        "r:2:34: sweep.space.o.m.0: `o.lr` is swept: a value of the sweep can't refer to it",
    ),
    "swept inside": (
        "o: {lr: 1}\nsweep: {space: {o.lr: [1], p: ['${o}']}}",
        "r:2:32: sweep.space.p.0: `o` is swept: a value of the sweep can't refer to it",
    ),
    "long text": ("a: " + "x" * 5001 + "\nb: ${a}${a}", "r:2:4: b: becomes a text of 10002 characters"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_reference_is_explained_once(case: str) -> None:
    text, words = WRONG[case]
    found = refused(text)
    assert len(found) == 1
    assert found[0].startswith(words)


def test_what_depends_on_a_wrong_reference_is_not_reported_again() -> None:
    assert [words[:9] for words in refused("a: ${b}\nb: ${c.d}\nc: ${nope}\ne: ['x${a}', '${c}']\nf: ${e}")] == [
        "r:3:4: c:"
    ]


def test_circles_through_parts_of_each_other_are_found() -> None:
    found = refused("p: ${q.x}\nq: ${r.y}\nr: ${q.z}")
    assert [words.split(":")[1] for words in found] == ["2", "3"]
    assert all("goes round in a circle" in words for words in found)


def test_a_wrong_reference_stays_in_the_tree_as_it_was() -> None:
    problems: list[Problem] = []
    root = resolve(read_text("a: ${nope}\nb: ${c}\nc: 1", "r"), problems)
    assert [problem.code for problem in problems] == ["reference"]
    assert plain(root) == {"a": "${nope}", "b": 1, "c": 1}
    assert is_reference(root.value["a"])


def chain(length: int, backwards: bool) -> str:
    lines = [f"a{n}: ${{a{n - 1}}}" for n in range(1, length + 1)]
    return "\n".join([*(reversed(lines) if backwards else lines), "a0: 7"])


@pytest.mark.parametrize("backwards", [False, True])
def test_a_chain_of_thirty_two_references_is_followed_and_one_more_is_refused(backwards: bool) -> None:
    assert resolved(chain(32, backwards))["a32"] == 7
    assert all("a chain of more than 32 references" in words for words in refused(chain(33, backwards)))
    assert refused(chain(100, backwards))


def test_a_long_way_through_references_is_refused() -> None:
    lines = [f"a{n}: '${{a{n - 1}.x}}'" for n in range(1, 50)]
    assert refused("\n".join([*lines, "a0: {x: 1}"]))
    deep = "{x: " * 50 + "1" + "}" * 50
    assert "a33: a chain of more than 32 references" in " ".join(refused("\n".join([*lines, f"a0: {deep}"])))


def test_references_that_nest_deeper_than_sixty_four_levels_are_refused() -> None:
    low = "{a: " * 30 + "1" + "}" * 30
    text = f"x: {low}\ny: {'{a: ' * 32}'${{x}}'{'}' * 32}\n"
    assert resolved(text + "z: ['${y}']")
    with pytest.raises(RecipeError, match="nested deeper than 64 levels"):
        resolved(text + "z: [['${y}']]")
    with pytest.raises(RecipeError, match="nested deeper than 64 levels"):
        resolved("z: [['${y}']]\n" + text)
    levels = [f"b{n}: {'[' * 60}'${{b{n - 1}}}'{']' * 60}" for n in range(30, 0, -1)]
    with pytest.raises(RecipeError, match="nested deeper than 64 levels"):
        resolved("\n".join([*levels, "b0: 1"]))


def test_references_that_grow_beyond_fifty_thousand_values_are_refused_at_once() -> None:
    lines = [f"a{n}: [{', '.join([f'${{a{n - 1}}}'.join(chr(39) * 2)] * 10)}]" for n in range(1, 30)]
    started = time.process_time()
    with pytest.raises(RecipeError, match="more than 50000 values"):
        resolved("a0: 1\n" + "\n".join(lines))
    assert resolved("a0: 1\n" + "\n".join(lines[:4]))
    assert time.process_time() - started < 1


def test_texts_are_evaluated_once_so_that_doubling_is_harmless() -> None:
    lines = ["a0: x", *(f"a{n}: ${{a{n - 1}}}${{a{n - 1}}}" for n in range(1, 14))]
    started = time.process_time()
    assert len(resolved("\n".join(lines))["a13"]) == 2**13
    assert time.process_time() - started < 0.5


def test_ten_thousand_characters_are_the_longest_filled_text() -> None:
    assert len(resolved("a: " + "x" * 5000 + "\nb: ${a}${a}")["b"]) == 10_000


LEAVES = st.one_of(
    st.integers(-99, 99),
    st.sampled_from([0.5, 1e-5, "x", "yz", None, True, "${a}", "${b.c}", "v${a}", "${b.d.0}", "${e}", "w${b.c}-${a}"]),
    st.sampled_from(["${b}", "${b.d}", "${nope}", "${a.x}", "${b.d.9}"]),
)
RECIPES = st.fixed_dictionaries(
    {
        "a": LEAVES,
        "b": st.fixed_dictionaries({"c": LEAVES, "d": st.lists(LEAVES, max_size=2)}),
        "e": LEAVES,
        "f": st.lists(LEAVES, max_size=2),
    }
)


@settings(max_examples=300)
@given(RECIPES)
def test_references_agree_with_omegaconf(recipe: dict[str, Any]) -> None:
    problems: list[Problem] = []
    ours = plain(resolve(read_text(dump(recipe), "r"), problems))
    assert bool(problems) == ("${" in str(ours))
    if not problems:
        assert OmegaConf.to_container(OmegaConf.create(recipe), resolve=True) == ours
    elif all("no value" in problem.message for problem in problems):  # circles take OmegaConf exponential time
        with pytest.raises((OmegaConfBaseException, RecursionError)):
            OmegaConf.to_container(OmegaConf.create(recipe), resolve=True)


def test_thousands_of_wrong_references_are_told_at_once() -> None:
    lines = [f"k{n}: ${{zz{n}}}" for n in range(3000)]
    started = time.process_time()
    assert len(refused("\n".join(lines))) == 3000
    assert len(refused(f"{'k' * 50_000}: ${{{'j' * 50_000}}}")) == 1
    assert time.process_time() - started < 1
