"""`launch --resume`: go on with a run that was killed, interrupted or failed, to the numbers of an unbroken one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raycipe.framework.errors import NotStarted, RunError
from raycipe.framework.results.diff import differences, shown
from raycipe.framework.runs import Run, begun, checkpoint_steps, find, find_all, newest
from raycipe.framework.spaces import is_grid
from raycipe.launchers.launch import Attempt, checked, launcher_of

FREE = ("about", "paper", "track", "expect", "profiles", "sweep", "resources", "extends")
FREE_SWEEP = ("trials", "minutes", "concurrent", "max_failures")
FREE_TRAIN = (
    "epochs",
    "steps",
    "env_steps",
    "iterations",
    "minutes",
    "eval_every",
    "checkpoint_every",
    "measure_every",
    "keep",
    "log_every",
    "early_stop",
    "until",
)


def resume(args: argparse.Namespace) -> int:
    """Resume the run that `args.recipe` names, or the newest run of the recipe file that it names."""
    from raycipe.launchers.display import Display

    recipe: Any = None
    if args.recipe.endswith((".yaml", ".yml")):
        recipe = checked(args.recipe, args.overrides, args.profile, args.data_root)
        runs = find_all(args.storage, recipe.name)
        if not runs:
            raise RunError("run", f"no run of {recipe.name} under {Path(args.storage).absolute()}", "launch it first")
        run = begun(newest(runs)[0])
    else:
        run = find(args.recipe, args.storage)
    with run.lock():  # what is looked at now must still hold when the attempt begins
        recipe = recipe or recipe_of(run, args)
        args.sweep = is_sweep(run)
        refuse_changes(run, recipe.plain)
        refuse_if_done(run, recipe.plain)
        refuse_shorter(run, recipe.plain)
        if args.check:
            print(f"{run}: can be resumed")
            return 0
        display = Display(args.quiet)
        display.info(f"resuming {run}")
        return go_on(Attempt(recipe, run, display, args))


def go_on(attempt: Attempt) -> int:
    """The attempt; one that could not start leaves the folder's account of the run as it was."""
    run = attempt.run
    before = {file: (run.path / file).read_bytes() for file in ("resolved.yaml", "provenance.json")}
    try:
        return attempt.go(resume=True)
    except NotStarted:
        if attempt.has_begun:
            for file, content in before.items():
                run.write(file, content)
        raise


def is_sweep(run: Run) -> bool:
    return run.read("provenance.json").get("launcher") == "tune"


def recipe_of(run: Run, args: argparse.Namespace) -> Any:
    """The run's own resolved recipe, with the command's overrides over it."""
    require_components(run)
    written = run.path / "written.yaml"  # a sweep's and a study's: the references in it are still open
    source = written if written.exists() else run.path / "resolved.yaml"
    recipe = checked(str(source), args.overrides, args.profile, args.data_root or str(Path.cwd()))
    recipe.is_smoke = bool(run.read("provenance.json").get("smoke"))  # its profile is part of the resolved values
    return recipe


def require_components(run: Run) -> None:
    """Refuse to read a recipe whose own components were not named again."""
    from raycipe.framework.plugins import roots

    here = {root.package for root in roots()}
    for plugin in run.read("provenance.json").get("plugins") or []:
        if plugin["name"] not in here:
            how = f"--components {plugin['folder']}" if plugin["origin"] == "--components" else plugin["origin"]
            raise RunError("plugin", f"{run}: was launched with {how}", "name it in this command, too")


def refuse_changes(run: Run, recipe: Mapping[str, Any]) -> None:
    """A resumed run must mean the same: only its length, cadences, resources and trackers may change."""
    varies = is_varied(run)
    changed = list(differences(meaning(run.resolved(), varies), meaning(recipe, varies)))
    if changed:
        lines = [f"{item.path}: {shown(item.left)} -> {shown(item.right)}" for item in changed]
        raise RunError("run", f"{run}: the recipe has changed since", "\n".join([*lines, "launch it as a new run"]))


def is_varied(run: Run) -> bool:
    """Whether it is a sweep or a study: its trials have one length, and those that have ended keep it."""
    return is_sweep(run) or "study" in run.resolved()


def meaning(recipe: Mapping[str, Any], varies: bool) -> dict[str, Any]:
    kept = {key: value for key, value in recipe.items() if key not in FREE}
    train = recipe.get("train") or {}
    if varies:
        sweep = recipe.get("sweep") or {}
        return {**kept, "train": train, "sweep": {k: value for k, value in sweep.items() if k not in FREE_SWEEP}}
    return {**kept, "train": {key: value for key, value in train.items() if key not in FREE_TRAIN}}


def refuse_if_done(run: Run, recipe: Mapping[str, Any]) -> None:
    """Refuse to resume a finished run, unless the recipe now lifts what ended it; the hint names that."""
    result = run.read("result.json")
    if run.ended() != "done":
        return
    if is_varied(run):
        refuse_if_no_trial_is_left(run, recipe)
        return
    before, now = run.resolved().get("train") or {}, recipe.get("train") or {}
    if result.get("stopped") == "minutes":
        goes_on = now.get("minutes") is None or now["minutes"] > (before.get("minutes") or 0)
        help_ = "its train.minutes were over: raise them, or set train.minutes=null"
    elif result.get("stopped") == "early_stop":
        goes_on = now.get("early_stop") != before.get("early_stop")
        help_ = "train.early_stop ended it: raise train.early_stop.patience, or set train.early_stop=null"
    elif result.get("stopped") == "until":
        goes_on = now.get("until") != before.get("until")
        help_ = "train.until ended it: raise train.until.at_least, or set train.until=null"
    else:
        lengths = ("env_steps", "iterations") if "agent" in recipe else ("epochs", "steps")
        goes_on = any((now.get(key) or 0) > (before.get(key) or 0) for key in lengths)
        help_ = "raise " + " or ".join(f"train.{key}" for key in lengths)
    if not goes_on:
        at = f" at step {result['steps']}" if result.get("stopped") and result.get("steps") else ""
        raise RunError("run", f"{run}: is done{at}", f"to train on, {help_} in the same command")


def refuse_if_no_trial_is_left(run: Run, recipe: Mapping[str, Any]) -> None:
    """Refuse to resume a finished study, and a finished sweep that shall not get more trials."""
    if not is_sweep(run):
        raise RunError("run", f"{run}: is done", "launch another study as a new run")
    before, now = run.resolved()["sweep"], recipe["sweep"]
    if run.read("result.json").get("stopped") == "minutes":
        if now.get("minutes") is None or now["minutes"] > (before.get("minutes") or 0):
            return
        help_ = "its sweep.minutes were over: raise them, or set sweep.minutes=null"
    elif is_grid(now):
        help_ = "a grid has all its trials: launch a larger one as a new run"
    elif (now.get("trials") or 0) > (before.get("trials") or 0):
        return
    else:
        help_ = "for more trials raise sweep.trials in the same command"
    raise RunError("run", f"{run}: is done", help_)


def refuse_shorter(run: Run, recipe: Mapping[str, Any]) -> None:
    """Refuse a length that the run has passed already: it would be called done without being what was asked for."""
    if launcher_of(recipe, is_sweep(run)) != "train":
        return
    steps = checkpoint_steps(run.path)
    train = recipe["train"]
    rows = [row for row in run.rows() if steps and row["step"] <= steps[-1]]
    for key, at in (("steps", "step"), ("epochs", "epoch")):
        reached = max((row[at] for row in rows), default=0)
        if train.get(key) is not None and train[key] < reached:
            message = f"{run}: is at {at} {reached:g} already, and train.{key} asks for {train[key]}"
            raise RunError("run", message, "ask for more, or launch it as a new run")
