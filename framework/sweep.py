"""Checks a sweep: every path names an argument, every value that may be tried is one that the recipe could hold."""

from __future__ import annotations

from typing import Any, NamedTuple

from raycipe.framework import words
from raycipe.framework.distributions import FAR, FINITE, FRACTIONS, Mistake, name_of, values_of
from raycipe.framework.errors import Problem
from raycipe.framework.layers import ONE_OF, without
from raycipe.framework.sections import TOGETHER, check_metric, check_training
from raycipe.framework.shapes import changed as changed_node
from raycipe.framework.tree import Node, Place
from raycipe.framework.walk import Map, Walk

WHILE_TRAINING = ("val", "train", "eval", "rl")  # groups of metrics that a run reports before its end
CHANGED_BY_PBT = ("optimizer", "task")
FIXED = ("recipe", "name", "about", "paper", "extends", "start", "track", "sweep", "study", "profiles", "expect")
VARIED = ("resources.num_workers", "resources.simulated_workers")  # of the resources


class Where(NamedTuple):
    """Where the paths stand that are checked, and what is done with them."""

    prefix: str = "sweep.space"
    done: str = "swept"
    code: str = "sweep"
    run: str = "trial"


SWEPT = Where()


def check_sweep(root: Node, walk: Walk, schema: dict[str, Any]) -> None:
    """Add every mistake of the section `sweep` to the walk's problems."""
    section = root.value.get("sweep")
    if section is None or not isinstance(section.value, dict):
        return
    sweep = section.value
    _goal(section, root, walk)
    space = sweep.get("space")
    if space is None or not isinstance(space.value, dict):
        return
    if not space.value:
        walk.problems.append(Problem("sweep", space.at, "sweep.space", "is empty: nothing to try"))
    for path, form in space.value.items():
        check_path(path, form, space, root, walk, schema)
    _count(section, walk)
    _scheduler(section, root, walk)


def _goal(section: Node, root: Node, walk: Walk) -> None:
    """Either one metric with its mode, or two and more objectives."""
    sweep = section.value
    objectives = sweep.get("objectives")
    if objectives is None:
        for name in ("metric", "mode"):
            if name not in sweep:
                message = f"missing `{name}`, which sweep needs (or `objectives`)"
                walk.problems.append(Problem("missing", section.key_at, "sweep", message))
        if "metric" in sweep:
            check_metric(sweep["metric"], "sweep.metric", "sweep", root, walk)
        return
    for name in ("metric", "mode"):
        if name in sweep:
            message = "excludes `objectives`: give one of them"
            walk.problems.append(Problem("sweep", sweep[name].key_at, f"sweep.{name}", message))
    if isinstance(objectives.value, dict):
        if len(objectives.value) < 2:
            hint = "for one, write metric: NAME and mode: min or max"
            walk.problems.append(Problem("sweep", objectives.at, "sweep.objectives", "needs two or more metrics", hint))
        for name, mode in objectives.value.items():
            check_metric(Node(name, mode.key_at), f"sweep.objectives.{name}", "sweep", root, walk)


def _scheduler(section: Node, root: Node, walk: Walk) -> None:
    """What a scheduler needs of the rest: one metric that is known while a trial trains, and values it may change."""
    sweep = section.value
    written = sweep.get("scheduler")
    kind = written.value.get("type") if written is not None and isinstance(written.value, dict) else written
    if written is None or kind is None or kind.value in ("none", None):
        return
    at, name = written.at, kind.value
    if "objectives" in sweep:
        message = f"{name} compares trials by one metric, and there are several objectives"
        walk.problems.append(Problem("sweep", at, "sweep.scheduler", message, "write scheduler: none"))
    metric = sweep.get("metric")
    if metric is not None and str(metric.value).partition("/")[0] not in WHILE_TRAINING:
        message = f"{name} compares trials while they train, and {metric.value} is known only at the end"
        walk.problems.append(Problem("sweep", at, "sweep.scheduler", message, "judge by a metric of val"))
    if name == "pbt":
        _population(sweep, root, at, walk)


def _population(sweep: dict[str, Node], root: Node, at: Place, walk: Walk) -> None:
    """Population based training carries weights and optimizer states from trial to trial while it changes values."""
    search = sweep.get("search")
    if search is not None and search.value == "optuna":
        message = "pbt finds its values itself: it takes search: random"
        walk.problems.append(Problem("sweep", search.at, "sweep.search", message))
    if "task" not in root.value:
        message = "pbt carries weights from trial to trial, and there is no `task` to train"
        walk.problems.append(Problem("sweep", at, "sweep.scheduler", message))
    for path, form in sweep["space"].value.items():
        entries = (
            form.value if isinstance(form.value, list) else form.value.get(name_of(form)) if name_of(form) else None
        )
        entries = entries.value if isinstance(entries, Node) else entries
        plain = entries is not None and all(not isinstance(entry.value, (dict, list)) for entry in entries)
        if not plain or path.partition(".")[0] not in CHANGED_BY_PBT or path.count(".") != 1 or path.endswith(".type"):
            message = "pbt changes this while weights stay: only numbers and words of optimizer and task can vary"
            walk.problems.append(Problem("sweep", form.key_at, f"sweep.space.{path}", message))


def _count(section: Node, walk: Walk) -> None:
    """The number of trials: the product of a grid, else it must be told."""
    sweep = section.value
    forms = sweep["space"].value
    search = sweep.get("search")
    written = search is not None and not search.origin.startswith("default")
    grid = (written and search.value == "grid") or any(name_of(form) == "grid" for form in forms.values())
    if not grid:
        if "trials" not in sweep:
            walk.problems.append(Problem("missing", section.key_at, "sweep", "missing `trials`, how many to run"))
        return
    if written and search.value != "grid":
        message = "a grid is searched as a grid: leave out `search`, or use choice"
        walk.problems.append(Problem("sweep", search.at, "sweep.search", message))
    product = 1
    for path, form in forms.items():
        entries = (
            form if isinstance(form.value, list) else form.value.get(name_of(form)) if name_of(form) in FINITE else None
        )
        if entries is None or not isinstance(entries.value, list):
            message = "a grid tries every combination, so every value must be a list or {grid: [...]}"
            walk.problems.append(Problem("sweep", form.at, f"sweep.space.{path}", message))
            return
        product *= len(entries.value)
    if "trials" in sweep and sweep["trials"].value != product:
        message = f"a grid of {product} combinations has {product} trials, not {words.bare(sweep['trials'].value)}"
        walk.problems.append(Problem("sweep", sweep["trials"].at, "sweep.trials", message, "leave it out"))


def check_path(
    path: str, form: Node, space: Node, root: Node, walk: Walk, schema: dict[str, Any], where: Where = SWEPT
) -> None:
    """Tell a path of the map `space` that names no argument, or a value of `form` that can't stand there."""
    shown_path = f"{where.prefix}.{path}"
    parent, _, last = path.rpartition(".")
    if any(path == unsure or path.startswith(unsure + ".") for unsure in walk.unsure):
        return
    above = [other for other in space.value if path.startswith(other + ".")]
    beside = [other for other in space.value if other in _excluded(path, walk)]
    first = path.partition(".")[0]
    mistake = hint = ""
    found = walk.maps.get(parent)
    if first in FIXED or (first == "resources" and path not in VARIED):
        mistake = f"`{path}` can't be {where.done}"
    elif above:
        mistake, hint = f"lies below the {where.done} `{above[0]}`", "put it inside the choice"
    elif beside and beside[0] in list(space.value)[: list(space.value).index(path)]:
        mistake, hint = f"excludes `{beside[0]}`, which is {where.done} too", f"a {where.run} can have one of them"
    elif found is None or (last not in found.arguments and not (last == "type" and found.type_kind)):
        mistake = "no argument has this path"
        near = words.nearest(path, _paths(walk))
        hint = f"did you mean `{near}`?" if near else "paths look like optimizer.lr"
    if mistake or found is None:
        walk.problems.append(Problem(where.code, form.key_at, shown_path, mistake, hint, path))
        return
    known = {(problem.at, problem.message) for problem in walk.problems}
    mistakes = _candidates(last, form, found, parent, walk, schema, known)
    if not mistakes and first in ("train", "resources"):
        mistakes = _broken_rules(path, form, space, root, walk, schema)
    for problem in mistakes:
        problem.path, problem.code = shown_path, where.code
        if (problem.at, problem.message) not in known:
            known.add((problem.at, problem.message))
            walk.problems.append(problem)


def _paths(walk: Walk) -> list[str]:
    return [f"{path}.{name}".lstrip(".") for path, found in walk.maps.items() for name in found.arguments]


def _candidates(
    last: str, form: Node, found: Map, parent: str, walk: Walk, schema: dict[str, Any], known: set[Any]
) -> list[Problem]:
    """Each value that may be tried is set in its map, and that map is checked again; `known` mistakes are left out."""
    problems = []
    try:
        values = values_of(form, top=True)
    except Mistake as error:
        return [Problem("sweep", error.node.at, "", error.message, error.hint)]
    several = name_of(form) in FINITE or isinstance(form.value, list)
    told = set()  # one mistake per argument of a choice: the ends of an interval tend to share theirs
    for label, value in values:
        again = Walk(schema)
        changed = _changed(found, last, value, _excluded(f"{parent}.{last}", walk))
        if found.type_kind:
            again.component(found.type_kind, changed, parent, ("", {}))
        else:
            again.value(found.arguments[last], value, f"{parent}.{last}".lstrip("."), (last, found.arguments[last]))
        again.finish()
        path = f"{parent}.{last}".lstrip(".")
        for problem in again.problems:
            beside = problem.path != path and not problem.path.startswith(path + ".") and last != "type"
            if beside or (problem.at, problem.message) in known or (label, problem.path) in told:
                continue  # what lies beside is told at its own place
            told.add((label, problem.path))
            inside = problem.path[len(path) :].lstrip(".") if last != "type" else ""
            if problem.code == "unknown-type":  # reads `schedule: no schedules/foo`
                inside = inside.removesuffix("type").rstrip(".") and inside.removesuffix(".type") + ":"
            prefix = " ".join(filter(None, [f"choice {label}:" if several else "", inside]))
            problem.message = f"{prefix} {problem.message}".strip()
            _reword(form, problem)
            problem.code = "sweep"
            problems.append(problem)
    return problems


def _broken_rules(path: str, form: Node, space: Node, root: Node, walk: Walk, schema: dict[str, Any]) -> list[Problem]:
    """Each value is laid over the recipe, and the rules of its section are walked again.

    A rule that speaks of another swept key too is not judged: the values of one trial come together.
    """
    parent, _, last = path.rpartition(".")
    found = walk.maps[parent]
    before = {(problem.path, problem.code) for problem in walk.problems}
    problems = []
    for label, value in values_of(form, top=True):
        again = Walk(schema)
        again.maps, again.unsure = dict(walk.maps), set(walk.unsure)
        changed = _with(root, path, again.value(found.arguments[last], value, path, (last, {})))
        again.problems = list(walk.problems)
        check_training(_without(changed, _excluded(path, walk)), again)
        for problem in again.problems[len(walk.problems) :]:
            others = [other for other in TOGETHER.get(problem.path, ()) if other != path and other in space.value]
            if not others and (problem.path, problem.code) not in before:
                prefix = f"choice {label}: " if name_of(form) in FINITE or isinstance(form.value, list) else ""
                problems.append(Problem("sweep", value.at, path, prefix + problem.message, problem.hint))
    return problems


def _with(node: Node, path: str, value: Node) -> Node:
    """The tree with another value at a path; what lies on the way to it is copied."""
    first, _, rest = path.partition(".")
    child = _with(node.value.get(first, Node({}, node.at)), rest, value) if rest else value
    return changed_node(node, {**node.value, first: child})


def _without(root: Node, paths: set[str]) -> Node:
    """The tree without the arguments at the paths, which are those of sections."""
    for path in paths:
        section, _, name = path.partition(".")
        if section in root.value and name in root.value[section].value:
            root = changed_node(root, {**root.value, section: without(root.value[section], name)})
    return root


def _excluded(path: str, walk: Walk) -> set[str]:
    """The paths beside this one that an upper layer takes away by setting it."""
    parent, _, last = path.rpartition(".")
    found = walk.maps.get(parent)
    definition = walk.defs.get(found.label, {}) if found is not None else {}
    pairs = [tuple(rule["not"]["required"]) for rule in definition.get("allOf", ())]
    pairs += [(*one, *other) for one, other in ONE_OF.get(parent, ())]
    return {f"{parent}.{name}" for pair in pairs if last in pair for name in pair} - {path}


def _reword(form: Node, problem: Problem) -> None:
    """A mistake of a value that the distribution stands for, in the distribution's terms."""
    if name_of(form) in (*FRACTIONS, "normal") and "must be an integer" in problem.message:
        problem.hint = f"{name_of(form)} gives fractions: use randint"
    elif problem.value in (-FAR, FAR):
        problem.message = problem.message.rpartition(", not ")[0] + ", and normal has no bounds"
        problem.hint = "clip it: {normal: [mean, sd], clip: [low, high]}"


def _changed(found: Map, last: str, value: Node, excluded: set[str]) -> Node:
    """The map with one argument set; what a changed `type` or the argument excludes is gone, as in any layer."""
    node = found.node
    old = node.value.get("type")
    if last == "type" and old is not None and old.value != value.value:
        return Node({"type": value}, value.at)
    gone = {path.rpartition(".")[2] for path in excluded}
    kept = {name: child for name, child in node.value.items() if name not in gone}
    return Node({**kept, last: value}, node.at, node.key_at)
