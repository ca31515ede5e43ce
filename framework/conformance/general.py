"""Promises of every component, whatever its kind."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Iterator
from typing import Any

import torch

from raycipe.framework import declaration
from raycipe.framework.arguments import Range
from raycipe.framework.conformance.example import Example
from raycipe.framework.contracts import Component, Optimizer
from raycipe.framework.errors import RecipeError

MAX_LINES = 8  # of a docstring's recipe


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
    assert pickle.dumps(vars(copy.deepcopy(component))) == before, "a copy differs from the original"


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


CHECKS = (
    help_is_complete,
    docstring_recipe_is_valid,
    bad_values_are_refused_by_name,
    copies_and_pickles_keep_the_arguments,
    constructor_only_stores,
)
