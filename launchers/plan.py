"""What a launch prints before it starts: what, where and how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SECTIONS = ("data", "model", "optimizer", "env", "agent", "estimator", "editor", "study")


def plan_lines(recipe: Mapping[str, Any], made: Any, run: str, is_sweep: bool = False) -> dict[str, str]:
    """What, where and how long, for people."""
    names = [f"{section} {recipe[section]['type']}" for section in SECTIONS if section in recipe]
    examples = ", ".join(f"{count:,} {name}" for name, count in made.examples.items())
    lines = {
        "what": f"{recipe['task']['type']}: {', '.join(names)}" if "task" in recipe else ", ".join(names),
        "model": f"{made.parameters:,} parameters" if made.parameters is not None else "",
        "data": f"{examples} examples" + (f"; {made.facts['note']}" if "note" in made.facts else "")
        if examples
        else "",
        "length": _length(recipe.get("train") or {}),
        "where": _tasks_where(recipe)
        or (_where(recipe.get("resources") or {}) if "task" in recipe else _agents_where(recipe)),
        "run": run,
    }
    if is_sweep:
        lines = {"what": lines.pop("what"), "sweep": _sweep(recipe["sweep"]), **lines}
        if recipe.get("resources", {}).get("num_workers", 1) in (0, 1) and "task" in recipe:
            lines["where"] = "each trial in one process on this machine"
    return {name: text for name, text in lines.items() if text}


def _sweep(sweep: Mapping[str, Any]) -> str:
    from raycipe.framework.results.trials import objectives_of, scheduler_of
    from raycipe.framework.spaces import count_of, is_grid

    goals = " and ".join(f"{mode} {metric}" for metric, mode in objectives_of(sweep).items())
    scheduler = scheduler_of(sweep)
    how = "grid" if is_grid(sweep) else sweep["search"]
    return f"{goals} over {', '.join(sweep['space'])}: {count_of(sweep)} trials, {how}" + (
        f", {scheduler}" if scheduler != "none" else ""
    )


def _length(train: Mapping[str, Any]) -> str:
    for unit in ("steps", "epochs", "env_steps", "iterations"):
        if count := train.get(unit):
            words = unit.replace("env_steps", "environment steps")
            batches = f", batches of {train['batch_size']}" if "batch_size" in train else ""
            return f"{count:,} {words if count != 1 else words[:-1]}{batches}"
    return ""


def _tasks_where(recipe: Mapping[str, Any]) -> str:
    """Where the parts of a study, or of what follows no training, run."""
    workers = (recipe.get("resources") or {}).get("num_workers", 1)
    if "study" in recipe and "agent" not in recipe:
        if workers == 0:
            return "its runs one after the other in this process"
        beside = f", each with {_where(recipe['resources'])}" if workers != 1 and "task" in recipe else ""
        return f"its runs as Ray tasks on this machine{beside}"
    if "task" in recipe or "agent" in recipe:
        return ""
    return "in this process" if workers in (0, 1) else f"in this process, {workers} parts at a time as Ray tasks"


def _agents_where(recipe: Mapping[str, Any]) -> str:
    if "agent" not in recipe:
        return ""
    resources = recipe.get("resources") or {}
    found = []
    for key, word in (("num_env_runners", "env runner"), ("num_learners", "learner")):
        if count := resources.get(key, 0):
            gpus = resources.get("gpus_per_learner") or 0 if word == "learner" else 0
            found.append(f"{count} {word}{'s' * (count != 1)}" + (f" with {gpus:g} GPU each" if gpus else ""))
    return f"{' and '.join(found)} on this machine" if found else "in this process"


def _where(resources: Mapping[str, Any]) -> str:
    workers = resources.get("num_workers", 1)
    simulated = resources.get("simulated_workers")
    if simulated:
        return f"{simulated} simulated workers, one after the other" + (" in this process" if workers == 0 else "")
    if workers == 0:
        return "in this process"
    count = f"{workers[0]} to {workers[1]}" if isinstance(workers, list) else workers
    gpus = resources.get("gpus_per_worker") or 0
    each = f", {gpus:g} GPU each" if gpus else ""
    return f"{count} Ray Train worker{'s' * (workers != 1)} on this machine{each}"
