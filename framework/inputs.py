"""Files that a recipe names: relative to the file that wrote them, and never outside the project or the data root."""

from __future__ import annotations

import os

from raycipe.framework.errors import shown
from raycipe.framework.tree import Node

MARKERS = (".git", "pyproject.toml")
PACKAGED = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "recipes")


class Inputs:
    """Finds the files of one recipe. `relative` maps each absolute path to how a hash sees it, without the machine."""

    def __init__(self, recipe: str, data_root: str | None = None) -> None:
        self.folder = os.path.dirname(os.path.realpath(recipe))
        self.roots = [project_root(self.folder), PACKAGED]
        if data_root:
            self.roots.insert(0, os.path.realpath(data_root))
        self.relative: dict[str, str] = {}

    def find(self, node: Node, suffixes: list[str]) -> tuple[str, str]:
        """(absolute path, "") of the file that a text names, or ("", what is wrong). The suffix `/` allows a folder."""
        text = node.value
        if "\0" in text or "://" in text:
            return "", f"must be a path to a file, not `{shown(text)}`"
        source = os.path.realpath(node.at.source) if os.path.isfile(node.at.source) else ""
        base = os.path.dirname(source) if source else self.folder
        path = os.path.realpath(os.path.join(base, text))
        root = next((root for root in self.roots if os.path.commonpath([root, path]) == root), None)
        if root is None:
            return "", f"`{shown(text)}` lies outside the project ({self.roots[-2]}): allow its folder with --data-root"
        is_folder = "/" in suffixes and os.path.isdir(path)
        endings = [suffix for suffix in suffixes if suffix != "/"]
        if endings and not is_folder and not path.endswith(tuple(endings)):
            words = " or ".join(endings) + (" or name a folder" if "/" in suffixes else "")
            return "", f"must end in {words}, not `{shown(text)}`"
        if not is_folder and not os.path.isfile(path):
            return "", f"{'is a folder' if os.path.isdir(path) else 'no such file'}: `{shown(text)}` in {base}"
        self.relative[path] = os.path.relpath(path, root).replace(os.sep, "/")
        return path, ""


def project_root(folder: str) -> str:
    """The nearest folder above a recipe's that holds `.git` or `pyproject.toml`, else the recipe's own folder."""
    at = folder
    while True:
        if any(os.path.exists(os.path.join(at, marker)) for marker in MARKERS):
            return at
        parent = os.path.dirname(at)
        if parent == at:
            return folder
        at = parent
