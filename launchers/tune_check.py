"""What a sweep's values must satisfy beside the schema: they fit each other, and an estimator's own rules.

The check of a recipe looks at the values of one path at a time. Here the trials of random and grid searches are made
as they will be (Optuna's are not known yet: a random sample stands for them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raycipe.framework.recipe import Recipe
    from raycipe.framework.tree import Node

TRIALS_MADE = 200  # about two seconds; a larger sweep tells the rest trial by trial


def check_trials(recipe: Recipe, data_root: str | None) -> None:
    """Make the recipes of the trials before any starts. Raises RecipeError, at the place of the space or of a value."""
    from raycipe.framework import catalogue
    from raycipe.framework.errors import Problem, RecipeError
    from raycipe.framework.registry import build
    from raycipe.framework.variation import vary

    schema = catalogue.load()
    problems: dict[str, Problem] = {}
    for place, path, prefix, changes in _candidates(recipe):
        try:
            found = vary(recipe, changes, schema=schema, data_root=data_root)
            if "estimator" in found.plain:  # its own rules are asked, too
                build(found.nodes.value["estimator"], "estimators", "estimator", {"seed": found.plain["seed"]})
        except RecipeError as error:
            for problem in error.problems:
                words = f"{problem.path}: {problem.message}"
                told = Problem("sweep", place.at, path, f"{prefix}{words}", problem.hint)
                problems.setdefault(words, told)
    if problems:
        raise RecipeError(list(problems.values()))


def _candidates(recipe: Recipe) -> Iterator[tuple[Node, str, str, Mapping[str, Any]]]:
    """(node to blame, its path, words before a message, changes): single values of estimators, then whole trials."""
    from raycipe.framework.distributions import values_of
    from raycipe.framework.spaces import count_of, drawn
    from raycipe.framework.tree import plain
    from raycipe.launchers.tune_board import told
    from raycipe.launchers.tune_search import name_of

    space = recipe.nodes.value["sweep"].value["space"]
    for path, form in space.value.items():
        if path.partition(".")[0] == "estimator":
            for _, value in values_of(form, top=True):
                yield value, f"sweep.space.{path}", "", {path: plain(value)}
    sweep = recipe.plain["sweep"]
    for number in range(1, min(count_of(sweep), TRIALS_MADE) + 1):
        changes = drawn(sweep, recipe.plain["seed"], number)
        yield space, "sweep.space", f"trial {name_of(number)} ({told(changes)}): ", changes
