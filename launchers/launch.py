"""What `launch` does: check, construct, make a run folder, run, judge, report."""

from __future__ import annotations

import argparse
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycipe.framework.errors import NotStarted, Problem, RecipeError, RunError
from raycipe.framework.tree import Place
from raycipe.launchers.plan import plan_lines
from raycipe.launchers.stopping import at_once, handled

if TYPE_CHECKING:
    from raycipe.framework.recipe import Recipe
    from raycipe.framework.runs import Run
    from raycipe.launchers.display import Display

VARYING = ("tune", "tasks")  # launchers that run variations of the recipe: they get it whole, the others its values


def run_launch(args: argparse.Namespace) -> int:
    """The whole command; the returned number is the exit code."""
    from raycipe.framework import plugins

    for folder in args.components:
        plugins.add_folder(folder)
    if args.resume:
        from raycipe.launchers.resuming import resume

        return resume(args)
    recipe = checked(args.recipe, args.overrides, args.profile, args.data_root)
    if args.sweep:
        require_sweep(recipe)
    if args.check:
        return report_check(recipe, args)
    return start(recipe, args)


def checked(
    path: str, overrides: Sequence[str] = (), profiles: Sequence[str] = (), data_root: str | None = None
) -> Recipe:
    """The recipe that these words mean, or RecipeError with every mistake."""
    from raycipe.framework.check import check
    from raycipe.framework.extends import recipe_file
    from raycipe.framework.recipe import load

    if data_root is not None and not Path(data_root).is_dir():
        raise RunError("run", f"--data-root {data_root}: no such folder")
    return check(load(recipe_file(path), list(overrides), list(profiles)), data_root=data_root)


def report_check(recipe: Recipe, args: argparse.Namespace) -> int:
    """`--check`: say that all is well, with -v where each value comes from."""
    if args.verbose:
        rows = list(recipe.origins())
        width = max(len(path) for path, *_ in rows)
        middle = min(40, max(len(value) for _, value, *_ in rows))
        for path, value, origin in rows:
            print(f"{path:<{width}}  {value:<{middle}}  {origin}")
    elif not args.quiet:
        print(f"{recipe.path}: {recipe.name} is well-formed ({recipe.hash[:12]})")
    return 0


def launcher_of(recipe: Mapping[str, Any], sweep: bool = False) -> str:
    """The launcher that a launch of these sections takes: the module `launchers/<name>.py`."""
    if sweep:
        return "tune"
    if "study" in recipe:
        return "tasks"
    if "task" in recipe:
        return "tasks" if "editor" in recipe or "predict" in recipe else "train"
    return "rllib" if "agent" in recipe else "tasks"


def require_sweep(recipe: Recipe) -> None:
    """Refuse `--sweep` where there is nothing to sweep, or where it would be a sweep of studies."""
    if "sweep" not in recipe.plain:
        hint = "raycipe show sweep tells how to write it"
        raise RecipeError([Problem("sweep", Place(recipe.path), "sweep", "--sweep needs the section `sweep`", hint)])
    if "study" in recipe.plain:
        at = recipe.nodes.value["study"].key_at
        message = "a sweep runs a recipe many times, and a study does so itself: their trials would multiply"
        raise RecipeError([Problem("sweep", at, "study", message, "launch it without --sweep, or with study=null")])


def start(recipe: Recipe, args: argparse.Namespace) -> int:
    """Run a checked recipe in a folder of its own, which is removed again if nothing could start."""
    from raycipe.framework import runs
    from raycipe.framework.construct import located
    from raycipe.launchers.display import Display

    display = Display(args.quiet)
    run = runs.create(args.storage, recipe.name)
    attempt = Attempt(recipe, run, display, args)
    try:
        with run.lock():
            write_recipe(run, recipe)
            run.write("provenance.json", facts_of(recipe, args))
            return attempt.go(resume=False)
    except NotStarted as error:
        attempt.has_begun = False
        raise RecipeError([located(error, recipe.nodes.value)]) from error
    finally:
        display.close()
        if not attempt.has_begun:
            shutil.rmtree(run.path, ignore_errors=True)
            runs.point_latest(run.path.parent)


def facts_of(recipe: Recipe, args: argparse.Namespace) -> dict[str, Any]:
    """What provenance.json says before the run."""
    from raycipe.framework import provenance

    return provenance.collect(
        recipe.path,
        command=args.command,
        recipe_hash=recipe.hash,
        seed=recipe.plain["seed"],
        bases=recipe.bases,
        profiles=recipe.profiles,
        overrides=recipe.overrides,
        plugins=plugin_facts(),
        is_smoke=recipe.is_smoke,
        note=args.note,
        launcher=launcher_of(recipe.plain, args.sweep),
    )


def write_recipe(run: Run, recipe: Recipe) -> None:
    """`recipe.yaml` as written and `resolved.yaml` as run."""
    from raycipe.framework.emit import dump

    run.write("recipe.yaml", recipe.text)
    run.write("resolved.yaml", dump(recipe.plain))
    if "sweep" in recipe.plain or "study" in recipe.plain:
        run.write("written.yaml", recipe.as_written())


def plugin_facts() -> list[dict[str, Any]]:
    """Name, origin, folder and content hash of every root of components but the built-in one."""
    from raycipe.framework.catalogue import fingerprint
    from raycipe.framework.plugins import roots

    return [
        {"name": root.package, "origin": root.origin, "folder": root.folder, "sha256": fingerprint(root.folder)}
        for root in roots()
        if root.origin != "built in"
    ]


class Attempt:
    """One attempt at a run: the first, or one after a kill or Ctrl-C."""

    def __init__(self, recipe: Recipe, run: Run, display: Display, args: argparse.Namespace) -> None:
        self.recipe = recipe
        self.run = run
        self.display = display
        self.args = args
        self.started = time.time()
        self.facts: dict[str, Any] = {}
        self.has_begun = self.is_resume = False
        self.resumed_from: int | None = None
        display.log_to(run.path / "log.txt")

    def go(self, resume: bool) -> int:
        """Run to the end, whatever it is; the result and the report are always written."""
        from raycipe.framework.results.tracking import Tracking

        self.is_resume = resume
        self.resumed_from = self.last_step() if resume else None
        tracking = Tracking(self.run, self.recipe.plain, self.display.warn, start_step=self.resumed_from or 0)
        tracking.require()
        with handled(at_once(self.abandon)):
            outcome = self.launch(resume, tracking)
            try:
                self.begin()
                self.display.close()
                result = self.conclude(outcome)
            except RunError as error:
                return self.unrecorded(outcome, error)
            tracking.close(result)
            self.write_report()
        self.display.results(result, str(self.run))
        if result["error"]:
            self.say_error(result["error"])
        if result["status"] == "interrupted":
            self.display.line(f"resume with: {self.resume_command()}")
        return int(result["exit_code"])

    def conclude(self, outcome: Mapping[str, Any]) -> dict[str, Any]:
        from raycipe.framework.results.result import conclude

        recipe = self.recipe
        return conclude(self.run, recipe.plain, recipe.hash, recipe.is_smoke, {**self.facts, **outcome}, self.started)

    def unrecorded(self, outcome: Mapping[str, Any], error: RunError) -> int:
        """The run ended, but its result can't be written: the disk is full, or the folder is gone."""
        from raycipe.framework.runs import checkpoint_steps

        self.display.close()
        if outcome.get("error"):
            self.say_error(outcome["error"])
        self.display.line(f"error: {error.message}", "red")
        if checkpoint_steps(self.run.path):
            self.display.line(f"make room there, then resume with: {self.resume_command()}")
        return RunError.exit_code

    def abandon(self) -> None:
        """Somebody stops the launch before training: leave nothing, or a run that says so."""
        self.display.close()
        if self.has_begun:
            self.conclude({"status": "interrupted"})
            self.display.line(f"interrupted before training; resume with: {self.resume_command()}")
            return
        self.display.line("interrupted before anything started")
        if not self.is_resume:
            shutil.rmtree(self.run.path, ignore_errors=True)

    def launch(self, resume: bool, tracking: Any) -> dict[str, Any]:
        """The launcher's part of the result; a failure becomes its `error`."""
        from raycipe.framework import plugins

        def progress(row: dict[str, Any]) -> None:
            self.display.progress(row)
            tracking.poll()

        name = launcher_of(self.recipe.plain, self.args.sweep)
        launcher: Any = import_module(f"raycipe.launchers.{name}")
        return dict(
            launcher.run(
                self.recipe if name in VARYING else self.recipe.plain,
                str(self.run),
                resume=resume,
                roots=plugins.roots(),
                progress=progress,
                on_info=self.display.say,
                prepare=self.prepare,
                verbose=self.args.verbose,
                dashboard=self.args.dashboard,
            )
        )

    def prepare(self) -> None:
        """Construct everything in the driver and print the plan; runs while Ray starts."""
        from raycipe.framework.construct import construct
        from raycipe.framework.provenance import gpus

        made = construct(self.recipe.nodes.value, self.recipe.plain)
        if made.fingerprint:
            self.facts["data"] = [{"component": self.recipe.plain["data"]["type"], **made.fingerprint}]
        self.facts["gpus"] = gpus()
        self.begin()
        self.display.plan(
            f"{self.recipe.name}  {self.recipe.hash[:12]}",
            plan_lines(self.recipe.plain, made, str(self.run), self.args.sweep),
        )

    def begin(self) -> None:
        """From here on the folder tells of an attempt, and stays."""
        from raycipe.framework.emit import dump
        from raycipe.framework.results.result import begin_attempt

        if not self.has_begun:
            self.has_begun = True
            if self.is_resume and self.recipe.plain != self.run.resolved():
                self.run.write("resolved.yaml", dump(self.recipe.plain))
                if (self.run.path / "written.yaml").exists():  # which its trials are made of
                    self.run.write("written.yaml", self.recipe.as_written())
            begin_attempt(self.run, self.resumed_from)

    def resume_command(self) -> str:
        words = ["launch", "--resume", str(self.run), *(["--sweep"] if self.args.sweep else [])]
        for folder in self.args.components:
            words += ["--components", folder]
        if self.args.data_root:
            words += ["--data-root", self.args.data_root]
        return shlex.join(words)

    def last_step(self) -> int:
        return max((int(row["step"]) for row in self.run.rows()), default=0)

    def write_report(self) -> None:
        from raycipe.framework.results.report import write_report

        try:
            write_report(self.run)
        except Exception as error:  # noqa: BLE001 - the results are on disk; a page that can't be drawn must not hide them
            self.display.warn(f"report.html was not written: {type(error).__name__}: {error}")

    def say_error(self, error: Mapping[str, Any]) -> None:
        where = f"{error['where']}: " if error.get("where") else ""
        told = f"step {error['step']}" in error["message"]
        step = f" (step {error['step']})" if error.get("step") is not None and not told else ""
        self.display.line(f"error: {where}{error['message']}{step}", "red")
        self.display.labelled("log     ", f"{self.run}/log.txt")
