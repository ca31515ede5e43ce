"""Where components come from: the built-in package, installed plugins, and folders given as `--components DIR`.

This module stands on the path of `raycipe check`, so it finds installed plugins by reading entry-point files itself:
importing `importlib.metadata` alone would cost 35 ms.
"""

from __future__ import annotations

import os
import re
import sys
from keyword import iskeyword
from typing import NamedTuple

from raycipe.framework.errors import Problem, RecipeError
from raycipe.framework.tree import Place

BUILT_IN = "raycipe.components"
GROUP = "[raycipe.components]"
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Root(NamedTuple):
    """A package of kind folders. `origin` is `built in`, `plugin NAME` or `--components`."""

    package: str
    folder: str
    origin: str


_added: list[Root] = []  # folders of --components, in the order given
_installed: list[Root] | None = None


def roots() -> list[Root]:
    """All places that components may come from: built in, plugins, `--components`.

    An added folder that is named as an installed plugin's package is that plugin, and stands for it.
    """
    added = [root.package for root in _added]
    return [root for root in _installed_roots() if root.package not in added] + _added


def _installed_roots() -> list[Root]:
    global _installed
    if _installed is None:
        _installed = [Root(BUILT_IN, _built_in_folder(), "built in"), *_plugins()]
    return _installed


def add_folder(folder: str) -> Root:
    """Make the kind folders in `folder` usable under the folder's own name (what `--components DIR` does).

    Raises RecipeError if it is no folder, or if its name is no Python word or belongs to something importable
    (other than an installed plugin: a developer's copy of a plugin takes the installed one's place).
    """
    folder = os.path.realpath(folder)
    name = os.path.basename(folder)
    if not os.path.isdir(folder):
        raise _error(
            folder, "--components: no such folder", "give a folder with kind folders inside (models/, data/, ...)"
        )
    for root in _added:
        if root.folder == folder:
            return root
    if not WORD.match(name) or iskeyword(name):
        raise _error(folder, f"--components: `{name}` is not a Python word", "rename the folder")
    other = None if any(root.package == name for root in _installed_roots()) else _package_folder(name)
    if (other is not None and os.path.realpath(other) != folder) or name in sys.modules:
        raise _error(folder, f"--components: `{name}` already names another Python package", "rename the folder")
    _mount(name, folder)
    root = Root(name, folder, "--components")
    _added.append(root)
    return root


def adopt(given: list[tuple[str, str, str]] | list[Root]) -> None:
    """In a worker: use the `--components` folders of the driver, which Ray has made importable (or which lie here)."""
    for package, folder, origin in given:
        if origin != "--components" or any(root.package == package for root in _added):
            continue
        here = _package_folder(package)
        if here is None:
            _mount(package, folder)
        _added.append(Root(package, here or folder, origin))


def added_folders() -> list[str]:
    """The `--components` folders, for Ray's `py_modules`."""
    return [root.folder for root in _added]


def _mount(name: str, folder: str) -> None:
    # A module object rather than an entry in sys.path: the folder's siblings stay invisible.
    module = type(sys)(name)
    module.__path__ = [folder]
    sys.modules[name] = module


def _built_in_folder() -> str:
    # framework/ and components/ are neighbours in the source tree and in an installed wheel alike.
    return os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "components")


def _plugins() -> list[Root]:
    found: dict[str, Root] = {}
    for folder in sys.path:
        for name in _dist_infos(folder):
            for package in _entry_points(os.path.join(folder, name, "entry_points.txt")):
                origin = "plugin " + name.removesuffix(".dist-info").rsplit("-", 1)[0]
                found.setdefault(package, Root(package, _package_folder(package) or "", origin))
    return list(found.values())


def _dist_infos(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder or ".") if name.endswith(".dist-info"))
    except OSError:  # sys.path may hold zip files and folders that are gone
        return []


def _entry_points(file: str) -> list[str]:
    try:
        with open(file, encoding="utf-8") as lines:
            text = lines.read()
    except OSError:  # most distributions have no entry points
        return []
    section = text.partition(GROUP)[2].partition("\n[")[0]
    values = (line.partition("=")[2].partition(":")[0].strip() for line in section.splitlines())
    return [value for value in values if value and all(WORD.match(part) for part in value.split("."))]


def _package_folder(package: str) -> str | None:
    from importlib.util import find_spec

    try:
        spec = find_spec(package)
    except (ImportError, ValueError):  # a parent package is missing, or a module without a spec has that name
        return None
    locations = spec.submodule_search_locations if spec else None
    return next(iter(locations), None) if locations else None


def _error(folder: str, message: str, hint: str) -> RecipeError:
    return RecipeError([Problem("plugin", Place(folder), "", message, hint)])
