"""`raycipe reproduce`: a finished run once more from its resolved recipe, and whether the numbers agree."""

from __future__ import annotations

import argparse

from raycipe.framework.errors import RunError
from raycipe.framework.results.reproduce import compare_runs
from raycipe.framework.runs import Run, find, find_all
from raycipe.launchers.launch import start
from raycipe.launchers.resuming import is_sweep, recipe_of

SHOWN = 10
SCHEDULERS = ("asha", "median", "hyperband")


def reproduce(args: argparse.Namespace) -> int:
    """Exit code 0 if the numbers agree bit for bit or within the tolerance, 1 if they differ."""
    from raycipe.framework import plugins

    for folder in args.components:
        plugins.add_folder(folder)
    first = find(args.run, args.storage)
    refuse_unlike(first)
    if first.status() != "done":
        raise RunError("run", f"{first}: is not done but {first.status()}", f"launch --resume {first}")
    args.overrides, args.profile, args.data_root = [], [], None
    args.command = ["raycipe", "reproduce", args.run]
    args.sweep = is_sweep(first)
    args.note, args.verbose, args.dashboard = f"reproduces {first.name}/{first.id}", False, False
    recipe = recipe_of(first, args)
    before = {run.id for run in find_all(args.storage, recipe.name)}
    code = start(recipe, args)
    second = next(run for run in find_all(args.storage, recipe.name) if run.id not in before)
    if code not in (0, 3):
        return code
    verdict = compare_runs(first, second, args.tolerance, until=stopped_at(first))
    words = {
        "bitwise": "reproduced bit for bit",
        "within tolerance": f"reproduced within a relative difference of {args.tolerance:g}",
        "different": "NOT reproduced",
    }
    print(f"{words[verdict.same]}: {verdict.compared} numbers compared")
    for item in verdict.mismatches[:SHOWN]:
        where = "at the end" if item.step is None else f"at step {item.step}"
        print(f"  {item.metric} {where}: {item.first!r} -> {item.second!r}")
    if len(verdict.mismatches) > SHOWN:
        print(f"  and {len(verdict.mismatches) - SHOWN} more")
    for metric in verdict.missing:
        print(f"  {metric}: reported at some steps by one run only")
    for name, (one, two) in verdict.versions.items():
        print(f"  {name} differs: {one} -> {two}")
    return 1 if verdict.same == "different" else 0


def refuse_unlike(first: Run) -> None:
    """A trial whose values changed while it trained is not the run of one recipe."""
    if (first.path / "lineage.json").exists():
        message = f"{first}: population based training has changed its values while it trained (lineage.json)"
        raise RunError("run", message, "no recipe gives these numbers; reproduce the whole sweep instead")


def stopped_at(first: Run) -> int | None:
    """The step at which a scheduler stopped a trial early: beyond it there is nothing to compare with."""
    result = first.read("result.json")
    early = first.parent is not None and result.get("stopped") in SCHEDULERS
    return int(result.get("steps") or 0) if early else None
