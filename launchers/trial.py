"""One trial of a sweep or one run of a study: the recipe with some values changed, run whole in the present process.

Its folder is a run folder like any other, in the `trials` of the sweep's or study's run: `report`, `compare` and
`reproduce` understand it. What has ended is never run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from raycipe.framework.runs import Run, create_trial

if TYPE_CHECKING:
    from raycipe.framework.recipe import Recipe

Say = Callable[[str], None]


class Base(NamedTuple):
    """The run whose trials are made: plain data, so that it travels to any process."""

    run_dir: str
    roots: Sequence[Any] = ()
    data_root: str | None = None


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
) -> dict[str, Any]:
    """Run one trial to its end and give its result.json; the result of an earlier attempt if that was done.

    A failure is told in the result's `error`, never raised. `on_row` is called as rows of metrics come and may raise to
    end the trial.
    """
    from raycipe.framework import plugins
    from raycipe.framework.results.result import begin_attempt, conclude

    plugins.adopt([tuple(root) for root in base.roots])
    run = create_trial(Run(base.run_dir), name)
    before = run.read("result.json")
    if before.get("status") == "done":
        return before
    recipe = vary_base(base, changes)
    resume = any(run.checkpoints.iterdir())
    _write_head(run, base, recipe, changes)
    began = time.time()
    begin_attempt(run, max((int(row["step"]) for row in run.rows()), default=0) if resume else None)
    with run.lock():
        outcome = _launch(recipe, run, base, resume, on_row, on_info)
        return conclude(run, recipe.plain, recipe.hash, recipe.is_smoke, outcome, began)


def _write_head(run: Run, base: Base, recipe: Recipe, changes: Mapping[str, Any]) -> None:
    """What a run folder says before the run. Versions and hardware are those of the sweep or study."""
    from raycipe.framework.emit import dump
    from raycipe.framework.runs import utc_now
    from raycipe.launchers.launch import launcher_of

    run.write("recipe.yaml", recipe.text)
    run.write("resolved.yaml", dump(recipe.plain))
    whole = Run(base.run_dir).read("provenance.json")
    run.write(
        "provenance.json",
        {
            **whole,
            "created": utc_now(),
            "finished": None,
            "launcher": launcher_of(recipe.plain),
            "recipe_hash": recipe.hash,
            "seed": recipe.plain["seed"],
            "changes": dict(changes),
            "attempts": run.read("provenance.json").get("attempts") or [],
        },
    )


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
