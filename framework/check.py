"""Checks a merged recipe against the schema and the rules between its sections; imports neither torch nor Ray.

All mistakes are found in one go, those of each profile too. The same pass normalises values and fills in defaults.
"""

from __future__ import annotations

import json
from typing import Any

from raycipe.framework import catalogue
from raycipe.framework.errors import Problem, RecipeError, shown
from raycipe.framework.inputs import Inputs
from raycipe.framework.recipe import Merged, Recipe, load
from raycipe.framework.sections import check_rules
from raycipe.framework.sweep import check_sweep
from raycipe.framework.tree import Node, plain
from raycipe.framework.walk import Walk

NOT_HASHED = ("name", "about", "paper", "track", "sweep", "profiles", "expect")
NO_OWNER: tuple[str, dict[str, Any]] = ("", {})


def check(merged: Merged, schema: dict[str, Any] | None = None, data_root: str | None = None) -> Recipe:
    """The checked recipe, or RecipeError with every mistake in it and in its profiles.

    `schema` is `catalogue.load()`'s (loaded here if None); `data_root` a folder outside the project that may be read.
    """
    inputs = Inputs(merged.path, data_root)
    root, problems = _examined(merged, schema if schema is not None else catalogue.load(), inputs, data_root)
    if problems:
        raise RecipeError(problems)
    return Recipe(merged, root, recipe_hash(plain(root), inputs.relative), inputs.relative)


def check_file(path: str, schema: dict[str, Any], data_root: str | None = None) -> list[Problem]:
    """The mistakes of one recipe file."""
    try:
        merged = load(path)
        return _examined(merged, schema, Inputs(merged.path, data_root), data_root)[1]
    except RecipeError as error:
        return error.problems


def _examined(
    merged: Merged, schema: dict[str, Any], inputs: Inputs, data_root: str | None
) -> tuple[Node, list[Problem]]:
    """The normalised tree of the recipe, and every mistake in it and in its profiles."""
    root, problems = _checked(merged, schema, inputs)
    told = {_mark(problem) for problem in problems}
    for name, variant in merged.profile_variants():
        for problem in _checked(variant, schema, Inputs(merged.path, data_root))[1]:
            if _mark(problem) not in told:
                told.add(_mark(problem))
                problem.path = f"profiles.{name}.{problem.path}".rstrip(".")
                problems.append(problem)
    return root, problems


def _checked(merged: Merged, schema: dict[str, Any], inputs: Inputs) -> tuple[Node, list[Problem]]:
    """The normalised tree of one variant of the recipe, and its mistakes."""
    walk = Walk(schema, inputs, merged.layers)
    root = merged.node
    sections = dict(root.value)
    for section in ("resources", *(["train"] if "task" in sections or "agent" in sections else [])):
        sections.setdefault(section, Node({}, root.at, origin=f"default of {section}"))
    whole = _whole(schema, "TrainAgent" if "agent" in sections else "Train")
    root = walk.record(whole, Node(sections, root.at, root.key_at), "", NO_OWNER)
    walk.finish()
    check_rules(root, walk)
    check_sweep(root, walk, schema)
    if "study" in sections:
        from raycipe.framework.studies import check_study  # few recipes have one

        check_study(root, walk, schema)
    return root, [*merged.problems, *walk.problems]


def _whole(schema: dict[str, Any], train: str) -> dict[str, Any]:
    """The definition of a whole recipe, without what is checked elsewhere: its version when read, claims by rules."""
    full = schema["$defs"]["full"]
    own = {"train": {"$ref": f"#/$defs/{train}"}, "expect": {"type": "object"}, "recipe": {}}
    return {**full, "properties": {**full["properties"], **own}, "required": ["name"]}


def _mark(problem: Problem) -> tuple[Any, ...]:
    return problem.at, problem.path, problem.message


def recipe_hash(recipe: dict[str, Any], files: dict[str, str]) -> str:
    """sha256 of what decides a recipe's result: its values but names and claims, files as seen from the project."""
    from hashlib import sha256

    kept = {key: value for key, value in recipe.items() if key not in NOT_HASHED}
    text = json.dumps(_portable(kept, files), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


def _portable(value: Any, files: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _portable(child, files) for key, child in value.items()}
    if isinstance(value, list):
        return [_portable(child, files) for child in value]
    return files.get(value, value) if isinstance(value, str) else value


def as_json(problem: Problem) -> dict[str, Any]:
    """A problem for tools: file, line, column, path, code, message, hint, value, allowed."""
    at = problem.at
    value = shown(problem.value) if isinstance(problem.value, str) else problem.value
    return {
        "file": at.source,
        "line": at.line,
        "column": at.column,
        "path": problem.path,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
        "value": value,
        "allowed": problem.allowed,
    }
