"""One trial of a sweep or one run of a study: the recipe with some values changed, run whole in the present process.

Its folder is a run folder like any other, in the `trials` of the sweep's or study's run: `report`, `compare` and
`reproduce` understand it. What has ended is never run again.

A training with one worker or none runs in the calling process and thread, where `hooks` see it and may end it by
raising `LeftTraining`; every other launcher runs as it does for a launch, and tells its rows of metrics through
`on_row`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from raycipe.framework.errors import RunError
from raycipe.framework.files import fsync
from raycipe.framework.runs import Run, create_trial

if TYPE_CHECKING:
    from raycipe.framework.recipe import Recipe

Say = Callable[[str], None]
SPACING_S = 30.0  # a trial that is killed loses no more, but for the epoch that it is in
LOCK_WAIT_S = 60.0  # for a process of an earlier attempt that is about to end
IN_PROCESS = (0, 1)  # workers


class Base(NamedTuple):
    """The run whose trials are made: plain data, so that it travels to any process."""

    run_dir: str
    roots: Sequence[Any] = ()
    data_root: str | None = None


class LeftTraining(BaseException):
    """Raised by a hook to end a trial's training: `stopped` says what ended it for good, None leaves it unfinished."""

    def __init__(self, stopped: str | None) -> None:
        super().__init__(stopped)
        self.stopped = stopped


def vary_base(base: Base, changes: Mapping[str, Any]) -> Recipe:
    """The checked recipe of a trial. Raises RecipeError if the recipe can't hold the values."""
    from raycipe.framework.variation import vary

    recipe, schema = _recipe_of(base.run_dir, base.data_root)
    return vary(recipe, changes, schema=schema, data_root=base.data_root)


@lru_cache(maxsize=4)
def _recipe_of(run_dir: str, data_root: str | None) -> tuple[Recipe, dict[str, Any]]:
    """A process runs many trials of one recipe, and reads it once."""
    from raycipe.framework import catalogue
    from raycipe.framework.check import check
    from raycipe.framework.recipe import load

    schema = catalogue.load()
    recipe = check(load(str(Path(run_dir) / "written.yaml")), schema, data_root)
    recipe.is_smoke = bool(Run(run_dir).read("provenance.json").get("smoke"))
    return recipe, schema


def run_trial(
    base: Base,
    name: str,
    changes: Mapping[str, Any],
    *,
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
    on_info: Say = lambda text: None,
    hooks: Sequence[Any] = (),
    took_over: bool = False,
    pauses: bool = False,
) -> dict[str, Any]:
    """Run one trial to its end and give its result.json; the result of an earlier attempt if that was done.

    A failure is told in the result's `error`, never raised. `on_row` is called as rows of metrics come, `hooks` are
    those of training in this process. With `took_over` the checkpoint in the folder is another trial's, with other
    values. One that `pauses` is put down and taken up again at its checkpoints, and writes them all.
    """
    from raycipe.framework import plugins
    from raycipe.framework.results.result import conclude
    from raycipe.launchers.background import Background

    plugins.adopt([tuple(root) for root in base.roots])
    run = create_trial(Run(base.run_dir), name)
    with _locked(run):
        before = run.read("result.json")
        if before.get("status") == "done":
            return before
        recipe = vary_base(base, changes)
        resume = any(run.checkpoints.iterdir())
        began = time.time()
        files = _write_head(run, base, recipe, changes, resume)

        def to_disk() -> None:
            for file in files:
                fsync(run.path / file)

        syncing = Background(to_disk)  # while it trains
        if runs_here(recipe.plain):
            outcome = _train_here(recipe, run, base, resume, hooks, took_over, pauses)
        else:
            outcome = _launch(recipe, run, base, resume, on_row, on_info)
        syncing.wait()
        return conclude(run, recipe.plain, recipe.hash, recipe.is_smoke, outcome, began)


def not_run(base: Base, name: str, changes: Mapping[str, Any], error: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a trial that could not be run or whose process died: its folder tells it too."""
    from raycipe.framework.results.result import conclude
    from raycipe.launchers.outcome import empty_outcome

    run, whole = create_trial(Run(base.run_dir), name), Run(base.run_dir).read("provenance.json")
    facts = run.read("provenance.json") or {**whole, "changes": dict(changes), "attempts": []}
    run.write("provenance.json", facts)
    outcome = {**empty_outcome(), "status": "failed", "error": dict(error)}
    return conclude(run, {}, facts["recipe_hash"], False, outcome, time.time())


def settle(run: Run, stopped: str) -> dict[str, Any]:
    """A trial that was put down is not taken up again: it is done, `stopped` early."""
    result, facts = run.read("result.json"), run.read("provenance.json")
    result |= {"status": "done", "exit_code": 0, "stopped": stopped}
    if facts.get("attempts"):
        facts["attempts"][-1]["how"] = "done"
        run.write("provenance.json", facts)
    run.write("result.json", result)
    return result


def runs_here(recipe: Mapping[str, Any]) -> bool:
    """Whether a trial with this resolved recipe trains in the calling process."""
    from raycipe.launchers.launch import launcher_of

    return launcher_of(recipe) == "train" and (recipe.get("resources") or {}).get("num_workers", 1) in IN_PROCESS


@contextmanager
def _locked(run: Run) -> Iterator[None]:
    """Hold the folder; whoever still holds it is an attempt that ends soon."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while run.is_locked() and time.monotonic() < deadline:
        time.sleep(0.1)
    with run.lock():
        yield


def _train_here(
    recipe: Recipe, run: Run, base: Base, resume: bool, hooks: Sequence[Any], took_over: bool, pauses: bool
) -> dict[str, Any]:
    from raycipe.launchers import outcome as ends
    from raycipe.launchers import train

    try:
        return train.run_in_process(
            recipe.plain,
            str(run),
            resume=resume,
            roots=base.roots,
            hooks=hooks,
            took_over=took_over,
            spacing_s=0.0 if pauses else spacing(recipe.plain),
        )
    except LeftTraining as left:
        outcome = {**ends.empty_outcome(), "status": "done" if left.stopped else "interrupted"}
        outcome["stopped"] = left.stopped
        ends.clear_signals(str(run))
        ends.fill_from_folder(outcome, str(run))
        return outcome
    except RunError as error:  # what can't start, in a process of its own: the trial's failure, not the sweep's
        return {**ends.empty_outcome(), "status": "failed", "error": ends.describe(error, str(run))}


def spacing(recipe: Mapping[str, Any]) -> float:
    """Seconds between checkpoints of a trial, at least: a short one saves at its end alone.

    None is left out where the recipe says how often to save, or has measures, which may compare checkpoints.
    """
    written = (recipe.get("train") or {}).get("checkpoint_every") is not None
    return 0.0 if written or recipe.get("measures") else SPACING_S


def _write_head(run: Run, base: Base, recipe: Recipe, changes: Mapping[str, Any], resume: bool) -> list[str]:
    """What a run folder says before the run; gives the files, which are not on the disk yet.

    Versions and hardware are those of the sweep or study.
    """
    from raycipe.framework.emit import dump
    from raycipe.framework.results.result import with_attempt
    from raycipe.framework.runs import utc_now
    from raycipe.launchers.launch import launcher_of

    step = max((int(row["step"]) for row in run.rows()), default=0) if resume else None
    facts = {
        **Run(base.run_dir).read("provenance.json"),
        "created": utc_now(),
        "finished": None,
        "launcher": launcher_of(recipe.plain),
        "recipe_hash": recipe.hash,
        "seed": recipe.plain["seed"],
        "changes": dict(changes),
        "attempts": with_attempt(run.read("provenance.json"), step),
    }
    content = {"recipe.yaml": recipe.text, "resolved.yaml": dump(recipe.plain), "provenance.json": facts}
    for file, text in content.items():
        run.write(file, text, sync=False)
    return list(content)


def _launch(
    recipe: Recipe,
    run: Run,
    base: Base,
    resume: bool,
    on_row: Callable[[dict[str, Any]], None],
    on_info: Say,
) -> dict[str, Any]:
    from raycipe.launchers.launch import VARYING, launcher_of

    name = launcher_of(recipe.plain)
    launcher: Any = import_module(f"raycipe.launchers.{name}")
    return dict(
        launcher.run(
            recipe if name in VARYING else recipe.plain,
            str(run),
            resume=resume,
            roots=base.roots,
            progress=on_row,
            on_info=on_info,
        )
    )
