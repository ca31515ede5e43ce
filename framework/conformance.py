"""What every component must pass, whoever wrote it. A plugin's tests run it in four lines:

    import pytest
    from raycipe.framework import conformance

    @pytest.mark.parametrize("case", conformance.cases("my_plugin"), ids=str)
    def test_conformance(case, tmp_path):
        case(tmp_path)

Each component is tried with the recipe in its own docstring, which makes that recipe a tested one. Files that such a
recipe names must lie in the folder that the case is called with. A failed check raises AssertionError in words.
"""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch

from raycipe.framework import catalogue, declaration, plugins
from raycipe.framework.arguments import Range
from raycipe.framework.check import check
from raycipe.framework.contracts import Batch, Component, Data, Model, Optimizer, Split, Task
from raycipe.framework.errors import RecipeError
from raycipe.framework.recipe import load
from raycipe.framework.registry import build, get

MAX_LINES = 8  # of a docstring's recipe
SEED = 0
BATCH = 16
SECTIONS = {  # section -> kind
    "data": "data",
    "model": "models",
    "task": "tasks",
    "optimizer": "optimizers",
    "measures": "measures",
    "estimator": "estimators",
    "editor": "editors",
    "study": "studies",
    "env": "envs",
    "agent": "agents",
}


class Case(NamedTuple):
    """One check of one component; call it with the folder of the files that its recipe names."""

    kind: str
    type: str
    check: Callable[[Example], None]

    def __str__(self) -> str:
        return f"{self.kind}/{self.type}: {self.check.__name__}"

    def __call__(self, folder: Path) -> None:
        self.check(Example(self.kind, self.type, folder))


def cases(package: str = plugins.BUILT_IN) -> list[Case]:
    """Every check of every component of a package (the built-in one, a plugin, or a --components folder's name)."""
    from raycipe.framework import conformance_kinds

    root = next((root for root in plugins.roots() if root.package == package), None)
    if root is None:
        known = ", ".join(known.package for known in plugins.roots())
        raise ValueError(f"package: no components come from `{package}`; known: {known}")
    files = sorted(Path(root.folder).glob("*/[!_]*.py"))
    return [
        Case(file.parent.name, file.stem, check)
        for file in files
        for check in (*GENERAL, *conformance_kinds.CHECKS.get(file.parent.name, ()))
    ]


@dataclass
class Example:
    """A component inside the recipe of its docstring, and all that this recipe builds, made at first use."""

    kind: str
    type_: str
    folder: Path

    @property
    def cls(self) -> type[Component]:
        return get(self.kind, self.type_)

    @cached_property
    def text(self) -> str:
        return declaration.block(self.cls, "Recipe:")

    def recipe_with(self, *overrides: str) -> Any:
        """The checked recipe, with overrides. Raises RecipeError."""
        path = self.folder / f"{self.kind}-{self.type_}.yaml"
        path.write_text(f"recipe: 1\nname: example\n{self.text}\n", encoding="utf-8")
        return check(load(str(path), list(overrides)), catalogue.load())

    @cached_property
    def recipe(self) -> Mapping[str, Any]:
        """The resolved recipe, defaults included."""
        plain: Mapping[str, Any] = self.recipe_with().plain
        return plain

    @cached_property
    def path(self) -> str:
        """Where the component stands in its recipe, as in `optimizer.schedule`."""
        found = next(_places(self.recipe, self.kind, self.type_), None)
        assert found is not None, f"the recipe in the docstring of {self.kind}/{self.type_} does not use it"
        return found

    @property
    def plain(self) -> Any:
        """The component's own part of the recipe."""
        value: Any = self.recipe
        for word in self.path.split("."):
            value = value[int(word)] if isinstance(value, list) else value[word]
        return value

    def make(self) -> Any:
        """The component itself (not for optimizers, which need parameters)."""
        return build(self.plain, self.kind, self.path, facts=self.facts if self.kind != "data" else {})

    @cached_property
    def data(self) -> Data:
        data: Data = build(self.recipe["data"], "data", "data")
        self._splits = data.load(SEED)
        return data

    @property
    def splits(self) -> dict[str, Split]:
        assert self.data  # loads them
        return self._splits

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.data.facts if "data" in self.recipe else {}

    def batch(self, split: str = "train", size: int = BATCH) -> Batch:
        from raycipe.framework.training.feed import in_order

        return next(in_order(self.splits[split], size, torch.device("cpu")))

    def model(self, seed: int = SEED) -> Model:
        torch.manual_seed(seed)
        model: Model = build(self.recipe["model"], "models", "model", facts=self.facts)
        return model

    def task(self) -> Task:
        task: Task = build(self.recipe["task"], "tasks", "task", facts=self.facts)
        return task

    def optimizer(self, model: torch.nn.Module, **changes: Any) -> Optimizer:
        recipe = {**self.recipe["optimizer"], **changes}
        given = {"params": [p for p in model.parameters() if p.requires_grad]}
        optimizer: Optimizer = build(recipe, "optimizers", "optimizer", given, self.facts)
        return optimizer


def _places(value: Any, kind: str, type_: str, path: str = "") -> Iterator[str]:
    """Paths at which a component stands: sections first, then nested arguments."""
    if path.split(".")[0] in SECTIONS and isinstance(value, dict) and value.get("type") == type_:
        is_section = re.fullmatch(r"\w+(\.\d+)?", path) is not None
        if (SECTIONS[path.split(".")[0]] == kind) == is_section:
            yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _places(child, kind, type_, f"{path}.{key}" if path else str(key))


# ---------------------------------------------------------------------------------------------- checks for all kinds


def help_is_complete(example: Example) -> None:
    """A sentence, help for every argument, a year in the reference, and a recipe of few lines."""
    about, helps = declaration.describe(example.cls)
    assert about.endswith((".", "!")) or ". " in about, "the docstring must begin with a sentence"
    silent = [name for name in declaration.parameters(example.cls) if not helps.get(name)]
    assert not silent, f"`Args:` says nothing of {', '.join(silent)}"
    unknown = sorted(set(helps) - set(declaration.parameters(example.cls)))
    assert not unknown, f"`Args:` tells of {', '.join(unknown)}, which the constructor does not take"
    reference = declaration.block(example.cls, "Reference:")
    assert not reference or re.search(r"\b(18|19|20)\d\d\b", reference), "a reference needs authors, title and year"
    lines = example.text.splitlines()
    assert 0 < len(lines) <= MAX_LINES, f"the docstring needs a `Recipe:` block of 1 to {MAX_LINES} lines"


def docstring_recipe_is_valid(example: Example) -> None:
    """It passes the check that every recipe passes, and uses the component."""
    assert example.path


def bad_values_are_refused_by_name(example: Example) -> None:
    """Numbers outside their range, unknown arguments: the check names the argument and says what is allowed."""
    for name, value in _bad_values(example.cls):
        try:
            example.recipe_with(f"{example.path}.{name}={value}")
        except RecipeError as error:
            paths = [problem.path for problem in error.problems]
            assert f"{example.path}.{name}" in paths, f"{name}={value} is refused at {paths}, not at {name}"
            continue
        raise AssertionError(f"{example.path}.{name}={value} is accepted")


def _bad_values(cls: type[Component]) -> Iterator[tuple[str, str]]:
    yield "no_such_argument", "1"
    for name, parameter in declaration.parameters(cls).items():
        bare, words = declaration.unwrap(parameter.annotation)
        for bound in (word for word in words if isinstance(word, Range)):
            beyond = (bound.gt, None if bound.ge is None else bound.ge - 1, bound.lt)
            yield from ((name, str(number)) for number in beyond if number is not None)
            if bound.le is not None:
                yield name, str(bound.le + 1)
        if bare in (int, float, bool):
            yield name, "words"


def copies_and_pickles_keep_the_arguments(example: Example) -> None:
    """Workers, sweeps and clones need it. (Optimizers are rebuilt on their worker and excepted.)"""
    if issubclass(example.cls, (Optimizer, torch.nn.Module)):
        return
    component = example.make()
    before = pickle.dumps(vars(component))
    for other in (copy.deepcopy(component), pickle.loads(pickle.dumps(component))):  # noqa: S301 (its own bytes)
        assert pickle.dumps(vars(other)) == before, "a copy differs from the original"


def constructor_only_stores(example: Example) -> None:
    """Every argument is kept as given, the global random state and the files stay untouched."""
    if issubclass(example.cls, (Optimizer, torch.nn.Module)):
        return
    state = torch.get_rng_state()
    component = example.make()
    assert torch.equal(state, torch.get_rng_state()), "the constructor draws random numbers"
    stored = list(vars(component).values())
    for name, value in example.plain.items():
        if name != "type" and not _holds_component(value):
            assert any(_equal(value, kept) for kept in stored), f"the constructor does not keep `{name}`"


def _holds_component(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_holds_component, value)))


def _equal(value: Any, kept: Any) -> bool:
    if isinstance(value, list) and isinstance(kept, (list, tuple)):
        return len(value) == len(kept) and all(map(_equal, value, kept))
    return type(value) is type(kept) and bool(value == kept)


GENERAL = (
    help_is_complete,
    docstring_recipe_is_valid,
    bad_values_are_refused_by_name,
    copies_and_pickles_keep_the_arguments,
    constructor_only_stores,
)
