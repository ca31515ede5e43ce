"""Reads a recipe and the bases that it `extends`: other files of its project, or recipes of the installed package."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from raycipe.framework.errors import Problem, RecipeError, shown
from raycipe.framework.inputs import PACKAGED, project_root
from raycipe.framework.reader import read_bytes, read_text
from raycipe.framework.tree import Node, Place
from raycipe.framework.words import listed, nearest, told

MAX_BASES = 16

_ENDINGS = (".yaml", ".yml")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(/[A-Za-z0-9_][A-Za-z0-9_-]*)*\Z")


class Source(NamedTuple):
    """One file of a recipe: its path as messages show it, its real path, its content and its tree."""

    path: str
    real: str
    content: bytes
    node: Node


def read_chain(path: str) -> list[Source]:
    """The recipe and its bases, the recipe first, the base of the bases last. Raises RecipeError."""
    chain = [_read(path)]
    root = project_root(os.path.dirname(chain[0].real))
    while "extends" in chain[-1].node.value:
        node = chain[-1].node.value["extends"]
        base, root = _base(node, chain, root)
        chain.append(_read(base))
    return chain


def version_problem(source: Source) -> Problem | None:
    """What is wrong with the `recipe: 1` that every file must hold."""
    node = source.node.value.get("recipe")
    if node is None:
        message = "missing `recipe`, the version of the recipe language"
        return Problem("missing", Place(source.path, 1, 1), "", message, "write `recipe: 1` on top")
    if node.value is True or node.value != 1:
        return Problem("wrong-choice", node.at, "recipe", f"must be `1`, not {told(node.value)}")
    return None


def _read(path: str) -> Source:
    content = read_bytes(path)
    return Source(path, os.path.realpath(path), content, read_text(content, path))


def _base(node: Node, chain: list[Source], root: str) -> tuple[str, str]:
    """The path of the base that the node names, and the folder that it and its own bases must lie in."""
    text = node.value
    if not isinstance(text, str) or not text.isprintable():
        raise _wrong(node, "must be the path or the name of a recipe", _HINT)
    if "://" in text:
        raise _wrong(node, "recipes are not read from the network", "download the file and name it by its path")
    if text.endswith(_ENDINGS):
        path = _in_project(node, chain[-1], root)
    elif _NAME.match(text):
        path, root = _packaged(node), os.path.realpath(PACKAGED)
    else:
        raise _wrong(node, f"`{shown(text)}` is neither the path nor the name of a recipe", _HINT)
    seen = [source.real for source in chain]
    if os.path.realpath(path) in seen:
        start = seen.index(os.path.realpath(path))
        folder = os.path.dirname(chain[0].path)
        names = [os.path.relpath(source.path, folder or ".") for source in [*chain[start:], chain[start]]]
        raise _wrong(node, f"goes round in a circle: {' -> '.join(names)}")
    if len(chain) > MAX_BASES:
        raise _wrong(node, f"more than {MAX_BASES} recipes one below the other")
    return path, root


_HINT = "a path relative to this file that ends in .yaml, or a packaged recipe's name such as `quickstart`"


def _in_project(node: Node, source: Source, root: str) -> str:
    text = node.value
    if os.path.isabs(text):
        raise _wrong(node, f"`{shown(text)}` is an absolute path", "write it relative to this file")
    real = os.path.realpath(os.path.join(os.path.dirname(source.real), text))
    if os.path.commonpath([real, root]) != root:
        raise _wrong(node, f"`{shown(text)}` lies outside the project ({root})", "copy it into the project")
    if not os.path.isfile(real):
        message = "is no regular file" if os.path.exists(real) else "no such file"
        raise _wrong(node, f"{message}: `{shown(text)}`", f"looked for {real}")
    if not real.endswith(_ENDINGS):
        raise _wrong(node, f"`{shown(text)}` leads to a file that is no .yaml file")
    beside = os.path.normpath(os.path.join(os.path.dirname(source.path), text))
    return beside if os.path.realpath(beside) == real else real


def _packaged(node: Node) -> str:
    path = _packaged_path(node.value)
    if path is None:
        raise _wrong(node, *_no_packaged(node.value))
    return path


def recipe_file(text: str) -> str:
    """The file of a recipe that is named by path or, if it is a packaged one, by name. Raises RecipeError."""
    return packaged_file(text) if is_name(text) else text


def is_name(text: str) -> bool:
    """Whether a word of the command line can only be a packaged recipe's name: neither a file nor like one."""
    return not text.endswith(_ENDINGS) and not os.path.exists(text)


def packaged_file(name: str) -> str:
    """The file of the packaged recipe of this name, as the command line gives it. Raises RecipeError."""
    path = _packaged_path(name) if _NAME.match(name) else None
    if path is None:
        message, hint = _no_packaged(name)
        if os.path.isfile(name + ".yaml"):
            hint = f"did you mean the file {name}.yaml?"
        raise RecipeError([Problem("file", Place(name), "", message, hint)])
    return path


def _packaged_path(name: str) -> str | None:
    folder = os.path.realpath(PACKAGED)
    path = os.path.realpath(os.path.join(folder, name + ".yaml"))
    if not os.path.isfile(path) or os.path.commonpath([path, folder]) != folder:
        return None
    here = os.getcwd()
    return os.path.relpath(path, here) if os.path.commonpath([path, here]) == here else path


def _no_packaged(name: str) -> tuple[str, str]:
    known = sorted(packaged_names())
    near = nearest(name, known)
    hint = f"did you mean `{near}`?" if near else f"known: {listed(known)}"
    return f"no packaged recipe is named `{shown(name)}`", hint


def packaged_names() -> list[str]:
    """The names of the installed package's recipes: `quickstart`, `topic/name`."""
    names = []
    for folder, _, files in os.walk(PACKAGED):
        below = os.path.relpath(folder, PACKAGED).replace(os.sep, "/").removeprefix(".")
        names += [f"{below}/{file[:-5]}".lstrip("/") for file in files if file.endswith(".yaml")]
    return names


def _wrong(node: Node, message: str, hint: str = "") -> RecipeError:
    return RecipeError([Problem("extends", node.at, "extends", message, hint)])
