"""From a file, profiles and overrides to one tree: what a recipe says, before it is checked and after."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from raycipe.framework.emit import dump
from raycipe.framework.errors import Problem, RecipeError, shown
from raycipe.framework.extends import Source, read_chain, version_problem
from raycipe.framework.layers import from_layer, lay, without, without_nulls
from raycipe.framework.overrides import dotted, overrides_layer
from raycipe.framework.references import resolve
from raycipe.framework.tree import Node, Place, plain
from raycipe.framework.words import bare, listed, nearest, told

if TYPE_CHECKING:
    from omegaconf import DictConfig

NOT_IN_PROFILES = ("recipe", "name", "extends", "profiles")
CHANGE = "change"  # the origin of values that a trial sets

_PROFILE = re.compile(r"[a-z0-9_]+\Z")


class Merged:
    """A recipe whose layers are laid and whose references are filled in, not yet checked.

    `node` is its tree without `extends` and `profiles`, `written` the same before references are filled in; `problems`
    are the mistakes found so far, which `check` reports with its own. A wrong reference stays in the tree as a text
    that holds `${`.
    """

    node: Node
    written: Node

    def __init__(self, sources: Sequence[Source], profiles: Sequence[str], overrides: Sequence[str]) -> None:
        self.path = sources[0].path
        self.profiles = list(profiles)
        self.overrides = list(overrides)
        self.problems = [problem for problem in map(version_problem, sources) if problem is not None]
        self._sources = sources
        self._files = _fold(sources)
        self._variants = _read_profiles(self._files, self.problems)
        self._patch = overrides_layer(overrides, self.problems)
        self._fill()

    @property
    def bases(self) -> list[tuple[str, str]]:
        """Path and sha256 of each file that the recipe extends, the nearest first."""
        from hashlib import sha256  # only a run needs it

        return [(source.path, sha256(source.content).hexdigest()) for source in self._sources[1:]]

    @property
    def text(self) -> bytes:
        """The recipe's own file as it was read."""
        return self._sources[0].content

    @property
    def layers(self) -> dict[str, int]:
        """The height of each layer, by the file or the origin of its nodes: a base, the recipe, profiles, overrides."""
        files = [source.path for source in reversed(self._sources)]
        names = [*files, *(f"profile {name}" for name in self.profiles), "override", CHANGE]
        return {name: height for height, name in enumerate(names, 1)}

    def profile_variants(self) -> Iterator[tuple[str, Merged]]:
        """Each profile's name, and the recipe with this profile alone and the same overrides."""
        for name in self._variants:
            variant = self._variant(profiles=[name])
            try:
                variant._fill()
            except RecipeError as error:  # too large or too deep: nothing of it can be checked
                variant.node, variant.problems = Node({}, self._files.at), error.problems
            yield name, variant

    def changed(self, change: Callable[[Node], Node]) -> Merged:
        """The same recipe, without its profiles' definitions, after `change` of its tree; references follow."""
        variant = self._variant(_variants={})
        variant.written = change(self.written)
        variant.node = resolve(variant.written, variant.problems)
        return variant

    def _variant(self, **attributes: Any) -> Merged:
        variant = object.__new__(Merged)
        variant.__dict__.update(self.__dict__, problems=[], **attributes)
        return variant

    def _fill(self) -> None:
        self.written = self._merge(self.profiles)
        self.node = resolve(self.written, self.problems)

    def _merge(self, profiles: Sequence[str]) -> Node:
        tree = self._files
        for name in profiles:
            if name in self._variants:
                tree = lay(tree, self._variants[name])
            else:
                self.problems.append(_unknown_profile(name, list(self._variants)))
        tree = without(lay(tree, self._patch, self.problems), "extends", "profiles")
        return without_nulls(tree)


class Recipe:
    """A checked recipe: `plain` holds every value, defaults included, and `nodes` the same with their places.

    `files` maps the absolute path of each file that it reads to how a hash sees it, without the machine.
    """

    def __init__(self, merged: Merged, nodes: Node, recipe_hash: str, files: Mapping[str, str]) -> None:
        self.merged = merged
        self.files = files
        self.path = merged.path
        self.bases = merged.bases
        self.text = merged.text
        self.profiles = merged.profiles
        self.overrides = merged.overrides
        self.nodes = nodes
        self.plain: dict[str, Any] = plain(nodes)
        self.name: str = self.plain["name"]
        self.hash = recipe_hash
        self.is_smoke = "smoke" in merged.profiles and not _from_profile(nodes, "expect", "smoke")

    @cached_property
    def config(self) -> DictConfig:
        """The values as a read-only OmegaConf `DictConfig`."""
        from omegaconf import OmegaConf

        return OmegaConf.create(self.plain, flags={"readonly": True})

    def as_written(self) -> str:
        """Its layers laid and its references open, as the text of one file that can stand in any folder."""
        return dump(with_files(plain(self.merged.written), self.plain, self.files))

    def origins(self) -> Iterator[tuple[str, str, str]]:
        """Path, value and origin of each value: `r.yaml:3:5`, `profile big (r.yaml:20:9) (over r.yaml:3:5)`."""
        for path, node in _leaves(self.nodes, ()):
            over = f" (over {_origin(node.over)})" if node.over is not None else ""
            yield dotted(path), bare(plain(node)), _origin(node) + over


def load(path: str, overrides: Sequence[str] = (), profiles: Sequence[str] = ()) -> Merged:
    """Read a recipe with its bases, lay profiles and overrides over it, and fill in its references.

    Raises RecipeError where there is no tree to go on with (unreadable text, a wrong `extends`, beyond the limits);
    other mistakes are in `Merged.problems`.
    """
    return Merged(read_chain(path), profiles, overrides)


def with_files(written: Any, checked: Any, files: Mapping[str, str]) -> Any:
    """The written values, with the absolute path of each file that they name."""
    if isinstance(written, dict) and isinstance(checked, dict):
        return {key: with_files(child, checked.get(key), files) for key, child in written.items()}
    if isinstance(written, list) and isinstance(checked, list) and len(written) == len(checked):
        return [with_files(one, other, files) for one, other in zip(written, checked, strict=True)]
    return checked if isinstance(checked, str) and checked in files else written


def _from_profile(nodes: Node, section: str, profile: str) -> bool:
    """Whether the profile brought anything of the section."""
    found = nodes.value.get(section)
    inside = [found, *found.value.values()] if found is not None and isinstance(found.value, dict) else []
    return any(node.origin == f"profile {profile}" for node in inside)


def _fold(sources: Sequence[Source]) -> Node:
    tree = sources[-1].node
    for source in reversed(sources[:-1]):
        tree = lay(without(tree, "about"), source.node)  # a base's sentence is about the base
    return Node(tree.value, sources[0].node.at)  # what no file says is missing in the one that is launched


def _read_profiles(tree: Node, problems: list[Problem]) -> dict[str, Node]:
    """The well-formed profiles of a recipe as layers; what is wrong with the others is added to `problems`."""
    node = tree.value.get("profiles")
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        problems.append(Problem("profile", node.at, "profiles", f"must be a map of profiles, not {told(node.value)}"))
        return {}
    found = {}
    for name, profile in node.value.items():
        path = f"profiles.{name}"
        if not _PROFILE.match(name):
            message = "the name of a profile holds a-z, 0-9 and _ only"
            problems.append(Problem("profile", profile.key_at, path, message))
        elif isinstance(profile.value, dict):
            for key in NOT_IN_PROFILES:
                if key in profile.value:
                    at = profile.value[key].key_at
                    problems.append(Problem("profile", at, f"{path}.{key}", f"a profile can't change `{key}`"))
            found[name] = from_layer(without(profile, *NOT_IN_PROFILES), f"profile {name}")
        elif profile.value is not None:
            message = f"must be a map of sections, not {told(profile.value)}"
            problems.append(Problem("profile", profile.at, path, message))
    return found


def _unknown_profile(name: str, known: list[str]) -> Problem:
    near = nearest(name, known)
    hint = f"did you mean `{near}`?" if near else f"known: {listed(known)}" if known else "the recipe has no profiles"
    return Problem("profile", Place(f"--profile {shown(name)}"), "", f"no profile `{shown(name)}`", hint)


def _leaves(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node]]:
    """The values of a tree; a list of scalars is one value."""
    value = node.value
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(child, (*path, key))
    elif isinstance(value, list) and any(isinstance(child.value, (dict, list)) for child in value):
        for index, child in enumerate(value):
            yield from _leaves(child, (*path, str(index)))
    else:
        yield path, node


def _origin(node: Node) -> str:
    if node.origin.startswith("profile "):
        return f"{node.origin} ({node.at})"
    return node.origin or str(node.at)
