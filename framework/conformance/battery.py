"""Which checks a component has to pass, and how they are run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from raycipe.framework import plugins
from raycipe.framework.conformance import boosting, exchanged, general, learning, reinforcement, updates, whole
from raycipe.framework.conformance.example import Example

Check = Callable[[Example], None]
BY_KIND: dict[str, tuple[Check, ...]] = {
    "data": learning.DATA,
    "models": learning.MODELS,
    "tasks": learning.TASKS,
    "optimizers": updates.OPTIMIZERS,
    "schedules": updates.SCHEDULES,
    "gradients": updates.GRADIENTS,
    "compressors": exchanged.COMPRESSORS,
    "links": exchanged.LINKS,
    "z_sets": boosting.Z_SETS,
    "weak_learners": boosting.WEAK_LEARNERS,
    "votes": boosting.VOTES,
    "measures": updates.MEASURES,
    "estimators": whole.ESTIMATORS,
    "editors": whole.EDITORS,
    "studies": whole.STUDIES,
    "envs": reinforcement.ENVS,
    "agents": reinforcement.AGENTS,
}


class Case(NamedTuple):
    """One check of one component; call it with the folder of the files that its recipe names."""

    kind: str
    type: str
    check: Check

    def __str__(self) -> str:
        return f"{self.kind}/{self.type}: {self.check.__name__}"

    def __call__(self, folder: Path) -> None:
        self.check(Example(self.kind, self.type, folder))


def cases(package: str = plugins.BUILT_IN) -> list[Case]:
    """Every check of every component of a package (the built-in one, a plugin, or a --components folder's name)."""
    root = next((root for root in plugins.roots() if root.package == package), None)
    if root is None:
        known = ", ".join(known.package for known in plugins.roots())
        raise ValueError(f"package: no components come from `{package}`; known: {known}")
    files = sorted(Path(root.folder).glob("*/[!_]*.py"))
    return [case for file in files for case in cases_of(file.parent.name, file.stem)]


def cases_of(kind: str, type_: str) -> list[Case]:
    """Every check of one component."""
    return [Case(kind, type_, check) for check in (*general.CHECKS, *BY_KIND.get(kind, ()))]


def check_component(name: str, files: Path | None = None) -> None:
    """Run every check of `kind/type`; `files` is a folder with the files that its docstring's recipe names.

    Raises AssertionError naming the check and the broken promise.
    """
    kind, _, type_ = name.partition("/")
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases_of(kind, type_):
            try:
                case(files or Path(scratch))
            except AssertionError as error:
                raise AssertionError(f"{case}: {error}") from error
