"""The end of a sweep: its best trial, `trials.csv`, `best.yaml`, `sweep.html`, and what the result says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from raycipe.framework.errors import counted as many
from raycipe.framework.results.trials import Trial, counted, pareto, ranked, read_trials, swept_paths
from raycipe.framework.runs import Run
from raycipe.launchers.outcome import empty_outcome
from raycipe.launchers.tune_board import told

if TYPE_CHECKING:
    from raycipe.framework.recipe import Recipe

BEST = "best.yaml"
TABLE = "trials.csv"
PARQUET = "trials.parquet"
PAGE = "sweep.html"


def conclude_sweep(recipe: Recipe, run: Run, plan: Any, on_info: Callable[[str], None]) -> dict[str, Any]:
    """The launcher's part of result.json. A failed trial makes the sweep failed; a diverged one does not."""
    sweep = recipe.plain["sweep"]
    found = read_trials(run, sweep)
    best = ranked(found, plan.objectives)
    outcome = {**empty_outcome(), "trials": counted(found)}
    write_table(run, found, list(plan.objectives))
    outcome["artifacts"] = [{"path": TABLE, "kind": "table", "title": "trials"}]
    if best:
        _name_best(recipe, run, best[0], outcome, on_info)
        if len(plan.objectives) > 1:
            front = pareto(found, plan.objectives)
            on_info(f"no other trial beats {', '.join(trial.name for trial in front)} in every objective")
    outcome["error"] = _error(found)
    if outcome["error"]:
        outcome["status"] = "failed"
    _write_page(run, on_info)
    return outcome


def _name_best(recipe: Recipe, run: Run, best: Trial, outcome: dict[str, Any], on_info: Callable[[str], None]) -> None:
    outcome["final"] = dict(best.result.get("final") or {})
    outcome["steps"], outcome["epochs"] = best.result.get("steps"), best.result.get("epochs")
    outcome["trials"]["best"] = best.name
    run.write(BEST, best_recipe(recipe, run, best))
    outcome["artifacts"].append({"path": BEST, "kind": "text", "title": "the best trial's recipe"})
    on_info(f"best trial {best.name}: {told(best.changes)}")


def best_recipe(recipe: Recipe, whole: Run, best: Trial) -> str:
    """The best trial's recipe as a file that can be launched, with the claim of the whole."""
    from raycipe.framework.variation import vary

    written = vary(recipe, best.changes, aside=("sweep",), data_root=_root(recipe)).text.decode()
    sweep = f"{best.run.name}/{best.run.path.parent.parent.name}"
    head = f"# Trial {best.name} of the sweep {sweep}\n#   {told(best.changes)}\n#   {launch_command(recipe, whole)}\n"
    if (best.run.path / "lineage.json").exists():
        head += "# Its values changed while it trained (trials/*/lineage.json): this recipe holds the last ones.\n"
    return head + written


def launch_command(recipe: Recipe, whole: Run) -> str:
    """How the best recipe is launched where it lies: files outside its project and own components are named."""
    import shlex
    from pathlib import Path

    from raycipe.framework.inputs import project_root
    from raycipe.framework.plugins import added_folders

    words = ["launch", str(whole.path / BEST)]
    for folder in added_folders():
        words += ["--components", folder]
    root, inside = _root(recipe), Path(project_root(str(whole.path.resolve())))
    if root is not None and not Path(root).is_relative_to(inside):
        words += ["--data-root", root]
    return shlex.join(words)


def _root(recipe: Recipe) -> str | None:
    from raycipe.launchers.tune import files_under

    return files_under(recipe)


def write_table(run: Run, found: list[Trial], metrics: list[str]) -> None:
    """`trials.csv` and `trials.parquet`: a row a trial. Its values come first, in the order of the sweep's space, then
    the objectives, then all else that it reported; what a trial has no value of is empty."""
    import pandas as pd

    paths = swept_paths(found, run.resolved()["sweep"].get("space") or {})
    reported = dict.fromkeys(name for trial in found for name in trial.final if name not in metrics)
    rows = [
        {
            "trial": trial.name,
            "status": trial.status,
            **{
                path: value if isinstance(value, (int, float, str, bool)) else str(value)
                for path, value in trial.settings.items()
            },
            **{metric: trial.values.get(metric, math.nan) for metric in metrics},
            **{name: value for name, value in trial.final.items() if name not in metrics},
            "steps": trial.result.get("steps"),
            "seconds": trial.result.get("seconds"),
        }
        for trial in found
    ]
    table = pd.DataFrame(rows, columns=["trial", "status", *paths, *metrics, *reported, "steps", "seconds"])
    run.write(TABLE, table.to_csv(index=False))
    for name in table.columns[table.dtypes == "object"]:  # a column of parquet has one type
        if any(not isinstance(value, str) for value in table[name].dropna()):
            table[name] = [None if pd.isna(value) else str(value) for value in table[name]]
    run.write(PARQUET, table.to_parquet(index=False))


def _error(found: list[Trial]) -> dict[str, Any] | None:
    """What went wrong, if anything did: the failed trials, or that none is left."""
    failed = [trial for trial in found if trial.status not in ("done", "stopped", "diverged")]
    diverged = [trial for trial in found if trial.status == "diverged"]
    shown: Mapping[str, Any]
    if failed:
        shown = failed[0].result.get("error") or {"message": f"it is {failed[0].status}: launch --resume takes it up"}
        message = f"{len(failed)} of {many(len(found), 'trial')} failed; trial {failed[0].name}: {shown.get('message')}"
        return {"type": "trial", "message": message, "where": None, "step": None, "trial": failed[0].name}
    if found and len(diverged) == len(found):
        message = f"every trial diverged; trial {diverged[0].name}: {diverged[0].result['error']['message']}"
        return {"type": "trial", "message": message, "where": None, "step": None, "trial": diverged[0].name}
    return None


def _write_page(run: Run, on_info: Callable[[str], None]) -> None:
    from raycipe.framework.results.sweep_page import write_sweep_page

    try:
        write_sweep_page(run)
    except Exception as error:  # noqa: BLE001 - the trials are on disk; a page that can't be drawn must not hide them
        on_info(f"warning: {PAGE} was not written: {type(error).__name__}: {error}")
