"""The `raycipe` commands about runs and recipes that exist: runs, report, compare, diff, reproduce, doctor."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any


def add_parsers(commands: Any) -> None:
    """Add this file's commands to `raycipe`'s subparsers."""
    runs = commands.add_parser("runs", help="list runs, newest last")
    runs.add_argument("name", nargs="?", help="only runs of this recipe")
    runs.add_argument("--format", choices=("text", "json"), default="text")
    _storage(runs, run_runs)

    report = commands.add_parser("report", help="write a run's report.html anew and say where it is")
    report.add_argument("run", help="a run folder, a recipe's name (its newest run), or an id")
    _storage(report, run_report)

    compare = commands.add_parser("compare", help="what differs between runs, what came out, and their curves")
    compare.add_argument("runs", nargs="+", metavar="RUN", help="runs, or one recipe's name for all its runs")
    compare.add_argument(
        "--out", metavar="FILE", help="the page to write (default: compare.html in the storage folder)"
    )
    _storage(compare, run_compare)

    diff = commands.add_parser("diff", help="how two recipes or runs differ, by meaning")
    for side in ("left", "right"):
        diff.add_argument(side, help="a recipe file, a run, or a packaged recipe's name if no run has it")
    diff.add_argument("--components", action="append", default=[], metavar="DIR", help="a folder with own components")
    _storage(diff, run_diff)

    reproduce = commands.add_parser("reproduce", help="run a finished run again and compare the numbers")
    reproduce.add_argument("run", help="a run folder, a recipe's name (its newest run), or an id")
    reproduce.add_argument(
        "--tolerance",
        type=float,
        default=1e-5,
        metavar="T",
        help="relative difference that counts as rounding (%(default)s)",
    )
    reproduce.add_argument(
        "--components", action="append", default=[], metavar="DIR", help="a folder with own components"
    )
    reproduce.add_argument("-q", "--quiet", action="store_true", help="print only the verdict")
    _storage(reproduce, run_reproduce)

    doctor = commands.add_parser("doctor", help="does this machine have what it needs? With a real two-worker step")
    doctor.add_argument("--quick", action="store_true", help="leave out the two-worker step")
    _storage(doctor, run_doctor)


def _storage(parser: argparse.ArgumentParser, run: Any) -> None:
    parser.add_argument("--storage", default="runs", metavar="DIR", help="where run folders are (default: ./runs)")
    parser.set_defaults(act=run)


def run_runs(args: argparse.Namespace) -> int:
    from raycipe.framework.runs import find_all

    found = [summary_or_damage(run) for run in find_all(args.storage, args.name)]
    if args.format == "json":
        print(json.dumps(found, indent=1))
        return 0
    if not found:
        print(f"no runs{f' of {args.name}' if args.name else ''} under {Path(args.storage).absolute()}")
        return 0
    head = {"run": "run", "status": "status", "verdicts": "expect", "shown": "values", "note": "note"}
    if not any(item["note"] for item in found):
        del head["note"]
    widths = {key: max(len(item[key]) for item in [head, *found]) for key in head}
    for item in [head, *found]:
        print("  ".join(f"{item[key]:<{width}}" for key, width in widths.items()).rstrip())
    return 0


def summary_or_damage(run: Any) -> dict[str, Any]:
    """A damaged run takes one line and does not hide the others."""
    from raycipe.framework.errors import RunError

    try:
        return summary(run)
    except RunError as error:
        shown = error.message.rpartition("/")[2]
        head = {"run": f"{run.name}/{run.id}", "path": str(run.path), "status": "damaged"}
        return {**head, "verdicts": "", "steps": None, "shown": shown, "note": ""}


def summary(run: Any) -> dict[str, Any]:
    """One line about a run."""
    from raycipe.framework.results.report import short

    result = run.read("result.json")
    verdicts = [item["verdict"] for item in result.get("expect") or []]
    counted = ", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts))
    final = result.get("final") or {}
    wanted = [item["metric"] for item in result.get("expect") or [] if item["metric"] in final]
    names = wanted or [name for name in final if name.startswith(("test/", "val/"))][:2]
    return {
        "run": f"{run.name}/{run.id}",
        "path": str(run.path),
        "status": run.status(),
        "verdicts": counted,
        "steps": result.get("steps"),
        "shown": "  ".join(f"{name} {short(final[name])}" for name in names),
        "note": run.read("provenance.json").get("note") or "",
    }


def run_report(args: argparse.Namespace) -> int:
    from raycipe.framework.results.report import write_report
    from raycipe.framework.runs import find

    print(write_report(find(args.run, args.storage)))
    return 0


def run_compare(args: argparse.Namespace) -> int:
    from raycipe.launchers.comparing import run_compare as compare

    return compare(args)


def run_diff(args: argparse.Namespace) -> int:
    """Exit code 0 if both mean the same, 1 if they differ (as `diff` does)."""
    from raycipe.framework import plugins
    from raycipe.framework.results.diff import differences, shown

    for folder in args.components:
        plugins.add_folder(folder)
    (left_is, left), (right_is, right) = (_meaning(text, args.storage) for text in (args.left, args.right))
    print(f"left: {left_is}\nright: {right_is}")
    found = list(differences(left, right))
    for item in found:
        print(f"{item.path}: {shown(item.left)} -> {shown(item.right)}")
    if not found:
        print("the same recipe")
    return 1 if found else 0


def _meaning(text: str, storage: str) -> tuple[str, dict[str, Any]]:
    """What a name stands for, and its resolved values without the words that change nothing."""
    from raycipe.framework.errors import RunError
    from raycipe.framework.extends import packaged_file, packaged_names
    from raycipe.framework.runs import find

    if text.endswith((".yaml", ".yml")):
        return f"recipe {text}", _resolved(text)
    try:
        run = find(text, storage)
    except RunError as error:
        if text in packaged_names():
            return f"packaged recipe {text}", _resolved(packaged_file(text))
        error.hint += "\na recipe is named by its file, or by its name if it is packaged"
        raise
    return f"run {os.path.relpath(run)}", _without_words(run.resolved())


def _resolved(path: str) -> dict[str, Any]:
    from raycipe.framework.check import check
    from raycipe.framework.recipe import load

    return _without_words(check(load(path)).plain)


def _without_words(recipe: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in recipe.items() if key not in ("about", "paper")}


def run_reproduce(args: argparse.Namespace) -> int:
    from raycipe.launchers.reproducing import reproduce

    return reproduce(args)


def run_doctor(args: argparse.Namespace) -> int:
    from raycipe.launchers.doctor import examine

    return examine(args.storage, args.quick, sys.stdout)
