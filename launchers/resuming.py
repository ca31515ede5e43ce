"""`launch --resume`: go on with a run that was killed, interrupted or failed, to the numbers of an unbroken one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raycipe.framework.errors import RunError
from raycipe.framework.results.diff import differences, shown
from raycipe.framework.runs import Run, find, find_all
from raycipe.launchers.launch import Attempt, checked

FREE = ("about", "paper", "track", "expect", "profiles", "sweep", "resources", "extends")
FREE_TRAIN = ("epochs", "steps", "minutes", "eval_every", "checkpoint_every", "keep", "log_every", "early_stop")


def resume(args: argparse.Namespace) -> int:
    """Resume the run that `args.recipe` names, or the newest run of the recipe file that it names."""
    from raycipe.launchers.display import Display

    if args.recipe.endswith((".yaml", ".yml")):
        recipe = checked(args.recipe, args.overrides, args.profile, args.data_root)
        runs = find_all(args.storage, recipe.name)
        if not runs:
            raise RunError("run", f"no run of {recipe.name} under {Path(args.storage).absolute()}", "launch it first")
        run = runs[-1]
    else:
        run = find(args.recipe, args.storage)
        recipe = recipe_of(run, args)
    args.sweep = is_sweep(run)
    refuse_changes(run, recipe.plain)
    if run.status() == "done" and not lengthened(run, recipe.plain):
        raise RunError("run", f"{run}: is done", "to train on, raise train.epochs or train.steps in the same command")
    with run.lock():
        display = Display(args.quiet)
        display.info(f"resuming {run}")
        if recipe.plain != run.resolved():
            from raycipe.framework.emit import dump

            run.write("resolved.yaml", dump(recipe.plain))
        return Attempt(recipe, run, display, args).go(resume=True)


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
    changed = list(differences(meaning(run.resolved()), meaning(recipe)))
    if changed:
        lines = [f"{item.path}: {shown(item.left)} -> {shown(item.right)}" for item in changed]
        raise RunError("run", f"{run}: the recipe has changed since", "\n".join([*lines, "launch it as a new run"]))


def meaning(recipe: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in recipe.items() if key not in FREE}
    kept["train"] = {key: value for key, value in (recipe.get("train") or {}).items() if key not in FREE_TRAIN}
    return kept


def lengthened(run: Run, recipe: Mapping[str, Any]) -> bool:
    """Whether the recipe now asks for more than the finished run did."""
    before, now = run.resolved().get("train") or {}, recipe.get("train") or {}
    return any((now.get(key) or 0) > (before.get(key) or 0) for key in ("epochs", "steps"))
