"""Which metrics a recipe can report, as far as its components say."""

from __future__ import annotations

import re
from typing import Any

from raycipe.framework.expect import NAME
from raycipe.framework.tree import Node
from raycipe.framework.walk import Walk
from raycipe.framework.words import listed, nearest

GROUPS = ("train", "val", "test", "comm", "time", "rl", "measure", "study", "estimator", "edit", "data")
RL = (  # what the training of an agent reports
    *("episode_return", "episode_length", "episodes", "eval_return", "eval_return_low", "eval_return_high"),
    *("eval_return_min", "eval_return_max", "eval_length"),
)
SCORES = ("accuracy", "f1", "auroc", "loss", "rmse", "mae", "r2")  # of estimators, see framework/scores.py
LOOP = ("loss", "lr", "grad_norm")  # what the training loop reports under train/ whatever the task


def mistake(metric: str, root: Node, walk: Walk) -> tuple[str, str] | None:
    """Why a recipe can't report `metric`, and a hint; None if it can, or if its components do not tell."""
    if not re.match(NAME + r"\Z", metric):
        return f"`{metric}` is no metric's name", "names look like val/loss: words joined by /"
    group, _, name = metric.partition("/")
    if group not in GROUPS:
        near = nearest(group, GROUPS)
        hint = f"did you mean `{near}/{name}`?" if near else f"they begin with {', '.join(GROUPS)}"
        return f"no metrics begin with `{group}/`", hint
    if group in ("train", "val", "test"):
        return _of_task(metric, group, name, root, walk)
    if group == "rl" and "agent" in root.value:
        return _of_agent(metric, name)
    if group == "study":
        return _of_study(metric, name, root, walk)
    return _of_measures(metric, name, root, walk) if group == "measure" else None


def of_the_whole(metric: str, root: Node) -> tuple[str, str] | None:
    """Why a claim about a study can't be one about `metric`: the recipe itself is not run, its variations are."""
    if "study" not in root.value or metric.startswith("study/"):
        return None
    section = root.value["study"].value
    type_ = section["type"].value if isinstance(section, dict) and "type" in section else section
    hint = f"claim what the study finds: study/{type_}/...; `raycipe show studies/{type_}` lists the names"
    hint += f"\nwhere it is inherited, `{metric}: null` takes it out"
    return f"a study does not report `{metric}`: each of its runs does", hint


def _of_study(metric: str, name: str, root: Node, walk: Walk) -> tuple[str, str] | None:
    """The type comes first, the last word is one that the study reports; what stands between is up to its values."""
    found = walk.maps.get("study")
    if found is None:
        return None if walk.unsure or "study" in root.value else (f"nothing reports `{metric}`", "it takes a `study`")
    type_ = found.label.partition("/")[2]
    reports: Any = walk.defs[found.label].get("x-reports")
    words = name.split("/")
    if words[0] == type_ and len(words) > 1 and (reports is None or words[-1] in reports):
        return None
    near = nearest(words[-1], reports or ())
    middle = "/".join([type_, *words[1:-1]])
    hint = f"did you mean `study/{middle}/{near}`?" if near else f"known: study/{type_}/.../{listed(reports or [])}"
    return f"{found.label} does not report `{metric}`", hint


def _of_agent(metric: str, name: str) -> tuple[str, str] | None:
    if name in RL:
        return None
    near = nearest(name, RL)
    hint = f"did you mean `rl/{near}`?" if near else f"known: {listed([f'rl/{word}' for word in RL])}"
    return f"agents do not report `{metric}`", hint


def _of_task(metric: str, group: str, name: str, root: Node, walk: Walk) -> tuple[str, str] | None:
    if "task" not in root.value:
        if "estimator" in root.value and group != "train":
            return _of_estimator(metric, group, name, root, walk)
        trained = any(section in root.value for section in ("agent", "estimator", "editor", "study", "start"))
        return None if trained or walk.unsure else (f"nothing reports `{metric}`", "it takes a `task`")
    task = walk.maps.get("task")
    reports = walk.defs[task.label].get("x-reports") if task is not None else None
    if task is None or reports is None:
        return None
    known = sorted({*reports, *(LOOP if group == "train" else ())})
    if name in known:
        return None
    near = nearest(name, known)
    hint = f"did you mean `{group}/{near}`?" if near else f"known: {listed([f'{group}/{word}' for word in known])}"
    return f"{task.label} does not report `{name}`", hint


def _of_estimator(metric: str, group: str, name: str, root: Node, walk: Walk) -> tuple[str, str] | None:
    estimator = walk.maps.get("estimator")
    own: Any = walk.defs[estimator.label].get("x-scored", ()) if estimator is not None else ()
    known = (*SCORES, *own)
    if name in known or "estimator" in walk.unsure:
        return None
    near = nearest(name, known)
    hint = f"did you mean `{group}/{near}`?" if near else f"known: {listed([f'{group}/{word}' for word in known])}"
    return f"estimators do not report `{metric}`", hint


def _of_measures(metric: str, name: str, root: Node, walk: Walk) -> tuple[str, str] | None:
    known: list[str] = []
    for path, found in walk.maps.items():
        if found.type_kind != "measures" or not path.startswith("measures."):
            continue
        reports: Any = walk.defs[found.label].get("x-reports")
        type_ = found.label.partition("/")[2]
        if reports is None and name.startswith(type_ + "/"):
            return None
        known += [f"measure/{type_}/{word}" for word in reports or ()]
    if metric in known or any(path.startswith("measures") for path in walk.unsure):
        return None
    near = nearest(metric, known)
    hint = f"did you mean `{near}`?" if near else f"known: {listed(known)}" if known else "add it to `measures`"
    return f"no measure of this recipe reports `{metric}`", hint
