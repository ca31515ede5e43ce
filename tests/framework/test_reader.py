from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raycipe.framework.errors import RecipeError
from raycipe.framework.reader import read_file, read_text, read_value
from raycipe.framework.tree import Node, Place, plain


def problems(text: str | bytes) -> list[tuple[str, str]]:
    """(code, first line of the message with its place) of every mistake of a text."""
    with pytest.raises(RecipeError) as caught:
        read_text(text, "r.yaml")
    return [(problem.code, str(problem).removeprefix("r.yaml:")) for problem in caught.value.problems]


REFUSED = {
    "tag": ("a: !x b", "tag", "1:4: tags are not allowed: `!x`\n    quote a text that begins with `!`"),
    "str tag": ("a: !!str 3", "tag", "1:4: tags are not allowed: `!!str`\n    quote a text that begins with `!`"),
    "bare tag": ("a: ! 3", "tag", "1:4: tags are not allowed: `!`\n    quote a text that begins with `!`"),
    "tag on a map": (
        "a: !!python/object:os.system {}",
        "tag",
        "1:4: tags are not allowed: `!!python/object:os.system`",
    ),
    "comparison as tag": ("a: != 3", "tag", '1:4: `!=` is a tag to YAML\n    quote comparisons: "!= 3"'),
    "broken tag": ("a: !<x b", "tag", "1:"),
    "comment with a sign": ("# 100 %\n", "missing", "1:1: the recipe is empty"),
    "YAML line": ("# x\n\n%YAML 1.1\n---\na: 1", "tag", "3:1: `%` lines are not allowed\n    leave it out"),
    "TAG line": ("%TAG ! tag:x,1:\n---\na: 1", "tag", "1:1: `%` lines are not allowed\n    leave it out"),
    "merge key": ("a: 1\n<<: {b: 1}", "key", "2:1: merge keys (`<<`) are not part of YAML 1.2"),
    "repeated key": ("a: 1\nb: 2\na: 3", "repeated-key", "3:1: repeated key `a`\n    first given on line 1"),
    "integer key": ("1: x", "key", '1:1: a key must be text: quote it: "1"'),
    "null key": ("null: x", "key", '1:1: a key must be text: quote it: "null"'),
    "list key": ("[a]: x", "key", "1:1: a key must be text"),
    "map key": ("? {a: 1}\n: 2", "key", "1:3: a key must be text"),
    "alias inside": ("a: &b [*b]", "alias", "1:8: the alias `*b` stands inside its own anchor"),
    "unknown alias": ("a: *b", "alias", "1:4: no anchor `&b` stands before this alias"),
    "unknown alias as key": ("*b : 1", "alias", "1:1: no anchor `&b` stands before this alias"),
    "second document": ("a: 1\n---\nb: 2", "syntax", "2:1: a second document begins here"),
    "text after the end": ("a: 1\n...\nb: 2", "syntax", "3:1: this stands after the end of the recipe"),
    "empty": ("", "missing", "1:1: the recipe is empty\n    a recipe starts with `recipe: 1`"),
    "comments": ("# x\n\n# y\n", "missing", "1:1: the recipe is empty\n    a recipe starts with `recipe: 1`"),
    "list on top": ("# x\n- a", "wrong-type", "2:1: the top of a recipe must be a map of sections"),
    "text on top": ("recipe", "wrong-type", "1:1: the top of a recipe must be a map of sections"),
    "infinite": ("lr: .inf", "out-of-range", "1:5: not a finite number: `.inf`"),
    "infinite for a text": (
        "name: .inf",
        "out-of-range",
        "1:7: not a finite number: `.inf`\n    quote it to make it a text",
    ),
    "small": ("a: 1e-400", "out-of-range", "1:4: a number too small for a 64-bit float: `1e-400`"),
    "large": ("a: [1e999]", "out-of-range", "1:5: a number too large for a 64-bit float: `1e999`"),
    "tab": ("a:\n\tb: 1", "syntax", "2:1: a tab indents this line\n    indent with spaces"),
    "reference in a list": ("a: [1, ${b.c}]", "syntax", '1:9: inside [ ] and { }, quote a reference: "${...}"'),
    "reference in a map": ("a: {lr: ${b}}", "syntax", '1:10: inside [ ] and { }, quote a reference: "${...}"'),
    "comparison": ("a: >= 0.95 # x", "syntax", '1:5: quote the comparison: ">= 0.95"'),
    "comparison in a map": ("a: {b: >= 0.95, c: 1}", "syntax", '1:8: quote the comparison: ">= 0.95"'),
    "comparison with a metric": ("expect:\n  a: > b/c", "syntax", '2:8: quote the comparison: "> b/c"'),
    "comparison as empty block": ("expect:\n  a: >2\nb: 1", "syntax", '2:6: quote the comparison: ">2"'),
    "nested colon": ("a: b: c", "syntax", "1:5: mapping values are not allowed "),
    "reserved character": ("a: @x", "syntax", "1:4: an unquoted text can't begin with `@`\n    quote it"),
    "control character": ("a: 1\nb: \x01", "encoding", "2:4: the character U+0001 is not allowed here"),
    "NUL": ("a\0: 1", "encoding", "1:2: the character U+0000 is not allowed here"),
    "next line": ("a: x\r\n\rb: x\x85y", "encoding", "3:5: the character U+0085 is not allowed here"),
    "line separator": ("a: x\u2028y", "encoding", "1:5: the character U+2028 is not allowed here"),
    "mark inside": ("\ufeff\ufeffa: 1", "encoding", "1:1: the character U+FEFF is not allowed here"),
    "not UTF-8": (b"a: 1\r\nb: \xc3\xa9\xff", "encoding", "2:5: the byte 0xff is not UTF-8\n    save it as UTF-8"),
    "UTF-16": ("a: 1".encode("utf-16"), "encoding", "1:1: the text is UTF-16\n    save it as UTF-8"),
    "half a pair": ('a: "\\ud800"', "", "1:"),
    "beyond Unicode": ('a: "\\U00110000"', "syntax", "1:"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_recipe_may_not_hold_is_refused_at_its_place(case: str, loader: str) -> None:
    text, code, words = REFUSED[case]
    found = problems(text)
    assert len(found) == 1
    assert found[0][0].startswith(code)
    assert found[0][1].startswith(words)


def test_an_unclosed_quote_and_bracket_name_the_line_where_they_began(loader: str) -> None:
    for text, kind in (("a: 1\nb: 'x\nc: 1", "quoted scalar"), ("a: 1\nb: [1, 2\nc: 3", "flow sequence")):
        [(code, words)] = problems(text)
        assert code == "syntax"
        assert words.startswith("3:")
        assert f"{kind} that began on line 2" in words


def test_all_mistakes_of_a_text_are_shown_at_once(loader: str) -> None:
    found = problems("a: !x 1\n2: b\na: .nan\nc: *d\n")
    assert [(code, words.split(": ")[0]) for code, words in found] == [
        ("tag", "1:4"),
        ("key", "2:1"),
        ("repeated-key", "3:1"),
        ("out-of-range", "3:4"),
        ("alias", "4:4"),
    ]


def test_quoted_scalars_are_always_text(loader: str) -> None:
    text = "a: '1'\nb: \"true\"\n'3': 'null'\nc: |\n  5\nd: >-\n  1e3\n"
    assert plain(read_text(text, "r")) == {"a": "1", "b": "true", "3": "null", "c": "5\n", "d": "1e3"}
    assert read_text("a: '1'\nb: x", "r").value["a"].plain is False
    assert read_text("a: '1'\nb: x", "r").value["b"].plain is True


def test_plain_scalars_are_read_as_yaml_1_2(loader: str) -> None:
    text = "a: [1e-3, on, 12:30:00, 1_000, 010, ~, true]\nb:\nc: no"
    assert plain(read_text(text, "r")) == {"a": [1e-3, "on", "12:30:00", "1_000", 10, None, True], "b": None, "c": "no"}


def test_places_are_exact_after_wide_characters_and_every_line_break(loader: str) -> None:
    root = read_text('"é漢😀": [x, 😀y, z]\r\nb: {c: 1,\r   dd: 2}\n\ne:\n  - f\n', "r")
    wide, b, e = root.value["é漢😀"], root.value["b"], root.value["e"]
    assert [str(node.at) for node in wide.value] == ["r:1:9", "r:1:12", "r:1:16"]
    assert (str(b.at), str(b.key_at)) == ("r:2:4", "r:2:1")
    assert (str(b.value["dd"].at), str(b.value["dd"].key_at)) == ("r:3:8", "r:3:4")
    assert str(e.value[0].at) == "r:6:5"
    assert str(e.value[0].key_at) == "r:6:5"


def test_an_alias_is_the_anchors_value_at_its_own_place(loader: str) -> None:
    root = read_text("a: &x\n  k: [1, 2]\nb: *x\nc: &y z\n*y : 1", "r")
    assert plain(root) == {"a": {"k": [1, 2]}, "b": {"k": [1, 2]}, "c": "z", "z": 1}
    b = root.value["b"]
    assert (str(b.at), str(b.key_at)) == ("r:3:4", "r:3:1")
    assert str(b.value["k"].at) == "r:2:6"
    assert str(root.value["a"].at) == "r:1:4"


def test_one_byte_order_mark_and_a_leading_document_line_are_fine(loader: str) -> None:
    assert plain(read_text(b"\xef\xbb\xbf---\na: 1\n...\n", "r")) == {"a": 1}


def nested(levels: int) -> str:
    return "{a: " * levels + "1" + "}" * levels


def test_sixty_four_levels_are_read_and_one_more_is_refused(loader: str) -> None:
    assert read_text(nested(64), "r").value
    assert problems(nested(65)) == [("depth", "1:257: nested deeper than 64 levels")]
    assert problems("[" * 100_000)[0][0] == "depth"
    assert read_text("a: &x " + nested(62) + "\nb: [*x]", "r").value
    assert problems("a: &x " + nested(63) + "\nb: [*x]")[0][0] == "depth"


def test_fifty_thousand_values_are_read_and_one_more_is_refused() -> None:
    assert len(read_text(f"a: [{'1,' * 49_998}]", "r").value["a"].value) == 49_998
    assert [code for code, _ in problems(f"a: [{'1,' * 49_999}]")] == ["size"]


def test_values_of_aliases_count_where_they_are_used(loader: str) -> None:
    hundred = f"a: &a [{'1,' * 99}]\n"
    assert read_text(hundred + f"b: &b [{'*a,' * 99}]\nc: [{'*b,' * 3}]", "r").value
    assert [code for code, _ in problems(hundred + f"b: &b [{'*a,' * 99}]\nc: [{'*b,' * 5}]")] == ["size"]
    bomb = "".join(f"{n}: &{n} [{','.join([f'*{chr(ord(n) - 1)}'] * 9)}]\n" for n in "bcdefghijklmnopqrstuvwxyz")
    started = time.process_time()
    assert [code for code, _ in problems("a: &a [1]\n" + bomb)] == ["size"]
    assert time.process_time() - started < 0.5


def test_a_text_of_one_hundred_thousand_characters_is_read_and_one_more_is_refused(loader: str) -> None:
    assert read_text("a: " + "x" * 100_000, "r").value
    assert problems("a: " + "x" * 100_001) == [("size", "1:4: a text of 100001 characters: at most 100000 are allowed")]


def test_a_million_bytes_are_read_and_one_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(b"a: 1\n" + b"#" * 999_995)
    assert plain(read_file(str(path))) == {"a": 1}
    path.write_bytes(b"a: 1\n" + b"#" * 999_996)
    with pytest.raises(RecipeError, match=f"^{path}: larger than 1000000 bytes$"):
        read_file(str(path))
    assert problems("#" * 1_000_001)[0][0] == "size"


def test_files_that_are_not_regular_or_not_there_are_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    for path, words in (
        ("gone.yaml", "no such file"),
        ("pipe.yaml", "not a regular file"),
        ("", "is a folder\n .*/\\*.yaml"),
    ):
        with pytest.raises(RecipeError, match=words) as caught:
            read_file(str(tmp_path / path))
        assert caught.value.problems[0].code == "file"
    with pytest.raises(RecipeError, match="can't be read"):
        read_file("a\0.yaml")


VALUES: dict[str, Any] = {
    "": None,
    "  ": None,
    "~": None,
    "1e-3": 1e-3,
    "on": "on",
    "'1'": "1",
    "[1, {a: b}]": [1, {"a": "b"}],
    "{a: 1, b: [x]}": {"a": 1, "b": ["x"]},
    "${a.b}": "${a.b}",
    "${a.b}/x: y": "${a.b}/x: y",
    ">= 0.5": ">= 0.5",
    "<3": "<3",
    "== 3": "== 3",
    "!= 3": "!= 3",
    "|x": "|x",
    "%x": "%x",
    "@x": "@x",
    "~ 3 ± 1": "~ 3 ± 1",
    "a=b": "a=b",
    "--- x": "--- x",
    "\n- 1\n- 2": [1, 2],
}


@pytest.mark.parametrize("text", VALUES)
def test_an_overrides_value_is_read_as_after_a_key(text: str, loader: str) -> None:
    node = read_value(text, Place("override `k`"))
    assert plain(node) == VALUES[text]
    assert node.at == Place("override `k`")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: b", "override `k`: mapping values are not allowed "),
        ("1\nb: 2", "override `k`: an override sets one value"),
        ("1\n_: 2", "override `k`: repeated key `_`"),
        ("{lr: ${a}}", 'override `k`: inside [ ] and { }, quote a reference: "${...}"'),
        ("1\n---\n2", "override `k`: a second document begins here"),
        ("{1: 2}", 'override `k`: a key must be text: quote it: "1"'),
        ("!x y", "override `k`: tags are not allowed: `!x`"),
        ("*a", "override `k`: no anchor `&a` stands before this alias"),
        (".nan", "override `k`: not a finite number: `.nan`"),
        ("a\x00b", "override `k`: the character U+0000 is not allowed here"),
        ("\udc80", "override `k`: the character U+DC80 is not allowed here"),
        (">" + "x" * 100_000, "override `k`: longer than 100000 characters"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_a_wrong_value_names_the_override_as_its_place(text: str, words: str, loader: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read_value(text, Place("override `k`"))
    assert [str(problem).startswith(words) for problem in caught.value.problems] == [True]


def check_located(node: Node) -> None:
    assert node.at.line >= 1
    assert node.at.column >= 1
    children = node.value.values() if isinstance(node.value, dict) else node.value
    if isinstance(node.value, (dict, list)):
        for child in children:
            check_located(child)


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            "a",
            "recipe: 1",
            ": ",
            "\n",
            "\n  ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            ", ",
            "&x ",
            "*x",
            "!t ",
            "${a}",
            "${",
            "'",
            '"',
            "|",
            ">",
            "\t",
            "#",
            "? ",
            "<<",
            "---\n",
            "...\n",
            "%YAML 1.2\n",
            "1e3",
            ".inf",
            "0x",
            "\\u",
            "\r",
            "\ufeff",
            "é",
            "😀",
            "\x00",
            "\u2028",
            "~",
            "null",
        ]
    ),
    max_size=40,
).map(lambda parts: "".join(parts).encode())


@settings(max_examples=400)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode), FRAGMENTS))
@example(b"a: {b: [c, *d")
@example(b"\xff\xfea\x00")
def test_any_bytes_are_a_tree_or_located_mistakes(content: bytes) -> None:
    started = time.process_time()
    try:
        check_located(read_text(content, "r.yaml"))
    except RecipeError as error:
        assert error.problems
        assert all(problem.at.source == "r.yaml" and problem.at.line >= 1 for problem in error.problems)
    assert time.process_time() - started < 1


@settings(max_examples=100)
@given(FRAGMENTS)
def test_reading_opens_no_file_no_socket_and_no_process(watch: Any, content: bytes) -> None:
    with watch() as seen:
        try:
            read_text(content, "r.yaml")
        except RecipeError as error:
            assert error.problems
    assert seen == []
