"""Reads a recipe's text into a tree of Nodes, from YAML's events: no tags, no code, exact places, hard limits."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any

import yaml

from raycipe.framework import syntax
from raycipe.framework.errors import Problem, RecipeError, shown
from raycipe.framework.events import MAX_SCALAR, Builder, Stop
from raycipe.framework.tree import Node, Place

MAX_BYTES = 1_000_000

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_COMPARISONS = (">", "<", "=", "!=", "|", "%", "@")


def read_file(path: str) -> Node:
    """The tree of a recipe file. Raises RecipeError with every mistake of its text."""
    return read_text(read_bytes(path), path)


def read_bytes(path: str) -> bytes:
    """The content of a regular file of at most 1 MB. Raises RecipeError (code `file` or `size`)."""
    at = Place(path)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # opening a pipe must not wait for a writer
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise RecipeError([Problem("file", at, "", "not a regular file")])
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise RecipeError([Problem("file", at, "", "no such file")]) from None
    except IsADirectoryError:
        hint = f"name its files, e.g. {path.rstrip('/')}/*.yaml"
        raise RecipeError([Problem("file", at, "", "is a folder", hint)]) from None
    except (OSError, ValueError) as error:  # ValueError: a path that holds NUL
        raise RecipeError([Problem("file", at, "", f"can't be read: {error}")]) from None
    if len(content) > MAX_BYTES:
        raise RecipeError([Problem("size", at, "", f"larger than {MAX_BYTES} bytes")])
    return content


def read_text(text: str | bytes, source: str) -> Node:
    """The tree of a recipe's text; `source` names it in messages. Raises RecipeError with every mistake."""
    text = _decoded(text, source)

    def place(mark: Any) -> Place:
        return Place(source, mark.line + 1, mark.column + 1)

    def refuse(code: str, index: int, message: str, hint: str) -> RecipeError:
        return RecipeError([Problem(code, Place(source, *syntax.position(text, index)), "", message, hint)])

    if refused := syntax.refused_character(text):
        raise refuse("encoding", *refused)
    if line := syntax.directive_line(text):
        raise RecipeError([Problem("tag", Place(source, line, 1), "", "`%` lines are not allowed", "leave it out")])
    root = _build(text, place, Place(source, 1, 1))
    if root is None or (root.value is None and root.plain):
        raise refuse("missing", 0, "the recipe is empty", "a recipe starts with `recipe: 1`")
    if not isinstance(root.value, dict):
        message = "the top of a recipe must be a map of sections"
        raise RecipeError([Problem("wrong-type", root.at, "", message, "a recipe starts with `recipe: 1`")])
    return root


def read_value(text: str, place: Place) -> Node:
    """The value of an override, read as after `key: `; every Node of it lies at `place`.

    An empty text is null; a reference and a comparison may stand unquoted. Raises RecipeError.
    """
    if refused := syntax.refused_character(text):
        raise RecipeError([Problem("encoding", place, "", refused[1])])
    if len(text) > MAX_SCALAR:
        raise RecipeError([Problem("size", place, "", f"longer than {MAX_SCALAR} characters")])
    if text.startswith("${"):
        return Node(text, place)
    if text.startswith(_COMPARISONS):
        return Node(text, place, plain=False)
    root = _build(f"_: {text}", lambda mark: place, place)
    if root is None or not isinstance(root.value, dict) or list(root.value) != ["_"]:
        raise RecipeError([Problem("syntax", place, "", "an override sets one value", "quote a text of several lines")])
    value: Node = root.value["_"]
    return value


def _decoded(text: str | bytes, source: str) -> str:
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(content) > MAX_BYTES:
        raise RecipeError([Problem("size", Place(source), "", f"larger than {MAX_BYTES} bytes")])
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RecipeError([Problem("encoding", Place(source, 1, 1), "", "the text is UTF-16", "save it as UTF-8")])
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = syntax.position(content[: error.start].decode("utf-8"), len(content[: error.start].decode()))
        message = f"the byte 0x{content[error.start]:02x} is not UTF-8"
        raise RecipeError([Problem("encoding", Place(source, line, column), "", message, "save it as UTF-8")]) from None


def _build(text: str, place: Callable[[Any], Place], start: Place) -> Node | None:
    """The tree of one document; None if there is none. Raises RecipeError."""
    builder = Builder(text, place, start)
    try:
        builder.read(yaml.parse(text, LOADER))
    except yaml.MarkedYAMLError as error:
        at = place(error.problem_mark or error.context_mark)
        builder.problems.append(syntax.syntax_problem(error, text, at))
    except (yaml.YAMLError, ValueError) as error:  # ValueError: the pure-Python scanner on the escape "\U00110000"
        builder.problems.append(Problem("syntax", builder.last, "", f"not YAML: {shown(error)}"))
    except Stop:
        assert builder.problems  # a limit was passed; its problem is raised with the others
    if builder.problems:
        raise RecipeError(builder.problems)
    return builder.root
