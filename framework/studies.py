"""Checks a study's arguments: every path names an argument, and every value could stand there."""

from __future__ import annotations

import re
from typing import Any

from raycipe.framework.errors import Problem
from raycipe.framework.sections import check_metric
from raycipe.framework.sweep import Where, check_path
from raycipe.framework.tree import Node, plain
from raycipe.framework.walk import Walk
from raycipe.framework.words import branches, told

SIDE_BY_SIDE = ("study.points",)  # its lists go along with each other: a value of one may stand there again
CHOICE = re.compile(r"choice \d+:? ?")


def check_study(root: Node, walk: Walk, schema: dict[str, Any]) -> None:
    """Add every mistake of the section `study` that its schema can't tell to the walk's problems."""
    found = walk.maps.get("study")
    section = root.value.get("study")
    if found is None or section is None or not isinstance(section.value, dict):
        return
    for name, wanted in found.arguments.items():
        node = section.value.get(name)
        form = next((branch["x-paths"] for branch in branches(wanted) if "x-paths" in branch), None)
        if form is None or node is None or not isinstance(node.value, dict):
            continue
        if form == "lists":
            _lists(node, f"study.{name}", root, walk, schema)
        else:
            _named(node, f"study.{name}", root, walk, schema)
    if "metric" in found.arguments and "metric" in section.value:
        metric = section.value["metric"]
        if isinstance(metric.value, str) and metric.value.startswith("study/"):
            message = f"`{metric.value}` is what a study finds, and none of its runs reports it"
            hint = "name a figure of a single run, such as test/accuracy"
            walk.problems.append(Problem("section", metric.at, "study.metric", message, hint, metric.value))
        else:
            check_metric(metric, "study.metric", "section", root, walk)


def _lists(space: Node, prefix: str, root: Node, walk: Walk, schema: dict[str, Any]) -> None:
    for path, form in space.value.items():
        if not isinstance(form.value, list) or not form.value:
            message = f"must be a list of values to try, not {told(form.value) if form.value else 'an empty one'}"
            walk.problems.append(
                Problem("section", form.at, f"{prefix}.{path}", message, "paths look like optimizer.lr")
            )
        else:
            if prefix not in SIDE_BY_SIDE:
                _repeated(form, f"{prefix}.{path}", walk)
            _path(path, form, space, prefix, root, walk, schema)


def _repeated(form: Node, path: str, walk: Walk) -> None:
    """Each value is a run, or several, of its own: equal ones could not be told apart."""
    first: dict[str, int] = {}
    for number, entry in enumerate(form.value, 1):
        value = plain(entry)
        before = first.setdefault(_meaning(value), number)
        if before != number:
            message = f"choice {number} is choice {before} again: {told(entry.value)}"
            walk.problems.append(Problem("section", entry.at, path, message, "leave it out; `seeds` repeats runs"))


def _meaning(value: Any) -> str:
    """The same text for values that mean the same: 1 and 1.0, but not true."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_meaning(child)}" for key, child in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_meaning, value)) + "]"
    return repr(float(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)


def _named(parts: Node, prefix: str, root: Node, walk: Walk, schema: dict[str, Any]) -> None:
    for name, changes in parts.value.items():
        shown = f"{prefix}.{name}"
        if not isinstance(changes.value, dict) or not changes.value:
            given = told(changes.value) if changes.value else "an empty one"
            message = f"must be a map of dotted path and value, not {given}"
            walk.problems.append(Problem("section", changes.at, shown, message, "e.g. {optimizer.momentum: 0}"))
            continue
        for path, value in changes.value.items():
            if value.value is None and path in root.value:
                continue  # the whole section goes; what would then be missing is told when the variation is checked
            before = len(walk.problems)
            _path(path, Node([value], value.at, value.key_at), changes, shown, root, walk, schema)
            for problem in walk.problems[before:]:  # the only value has no number
                problem.message = CHOICE.sub("", problem.message, count=1)


def _path(path: str, form: Node, space: Node, prefix: str, root: Node, walk: Walk, schema: dict[str, Any]) -> None:
    if path == "seed":
        message = "`seed` is varied by the study itself"
        walk.problems.append(Problem("section", form.key_at, f"{prefix}.seed", message, "say which in study.seeds"))
        return
    check_path(path, form, space, root, walk, schema, Where(prefix, "varied", "section", "run"))
