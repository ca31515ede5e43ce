"""Runs a recipe with task, model and optimizer: in this process (`num_workers: 0`), or with Ray Train.

Only light imports stand at the top: Ray's workers import this module before anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raycipe.framework.errors import NotStarted, RunError
from raycipe.launchers.outcome import Progress, Say, outcome_with_rows


def run(
    recipe: Mapping[str, Any],
    run_dir: str,
    *,
    resume: bool,
    roots: Sequence[Any] = (),
    progress: Progress = lambda row: None,
    on_info: Say = lambda text: None,
    prepare: Callable[[], None] = lambda: None,
    insecure: bool = False,
    verbose: bool = False,
    dashboard: bool = False,
) -> dict[str, Any]:
    """Train and measure; gives the launcher's part of result.json, whose `error` tells of a failed run.

    Args:
        recipe: resolved, plain data.
        run_dir: the run's folder; every worker must see it.
        resume: go on from the newest checkpoint.
        roots: where components come from, for workers.
        progress: called at most four times a second with `step`, `total_steps`, `epoch`, rate, time left and metrics.
        on_info: lines for people: warnings, restarts, how to stop.
        prepare: constructs everything once and prints the plan; runs while Ray starts. Its RecipeError passes through.
        insecure: allow Ray without token authentication.
        verbose: Ray's own output to the terminal instead of log.txt.
        dashboard: start Ray's dashboard.
    """
    from raycipe.launchers.progress import Follower

    follower = Follower(run_dir, progress, on_info)

    def body() -> Mapping[str, Any]:
        config = _config(recipe, run_dir, resume, roots)
        if _workers(recipe) == 0:
            from raycipe.launchers.local import run_here

            return run_here(config, prepare, follower, on_info)
        from raycipe.launchers.cluster import run_on_ray

        return run_on_ray(config, prepare, follower, on_info, insecure, verbose, dashboard)

    return outcome_with_rows(run_dir, body, follower.last)


def run_in_process(
    recipe: Mapping[str, Any],
    run_dir: str,
    *,
    resume: bool,
    roots: Sequence[Any],
    hooks: Sequence[Any],
    took_over: bool = False,
    spacing_s: float = 0.0,
) -> dict[str, Any]:
    """The same for one worker in the calling process and thread, for whoever runs many: `hooks` see it train.

    What they raise, if it is no error, passes through. `took_over` says that the checkpoint comes from a run with other
    values: the optimizer keeps its own. Checkpoints of a cadence lie `spacing_s` apart or more. Small data stay in
    memory for the next training.
    """
    from raycipe.framework.comm import LocalComm
    from raycipe.launchers.local import device_of

    def body() -> Mapping[str, Any]:
        one_of_many = {"took_over": took_over, "spacing_s": spacing_s, "keeps_data": True}
        config = {**_config(recipe, run_dir, resume, roots), "one_of_many": one_of_many}
        return work(config, LocalComm(), device_of(recipe), hooks)

    return outcome_with_rows(run_dir, body)


def _config(recipe: Mapping[str, Any], run_dir: str, resume: bool, roots: Sequence[Any]) -> dict[str, Any]:
    """What `work` is told."""
    return {
        "recipe": dict(recipe),
        "run_dir": run_dir,
        "resume": resume,
        "start_dir": find_start_dir(recipe, run_dir),
        "roots": [tuple(root) for root in roots],
    }


def _workers(recipe: Mapping[str, Any]) -> Any:
    return (recipe.get("resources") or {}).get("num_workers", 1)


def find_start_dir(recipe: Mapping[str, Any], run_dir: str) -> str | None:
    """The folder of the run that `start` names: a path, or an id or name under the same storage."""
    start = recipe.get("start")
    if not start:
        return None
    from raycipe.framework.runs import Run, find

    name = start["run"] if isinstance(start, Mapping) else start
    try:
        whole = Run(run_dir).parent or Run(run_dir)
        return str(find(name, whole.path.parent.parent, other_than=whole).path)
    except RunError as error:
        raise NotStarted("run", error.message, error.hint, "start") from error


def work(config: Mapping[str, Any], comm: Any, device: Any, hooks: Sequence[Any] = ()) -> dict[str, Any]:
    """One rank's part of a run, in whatever process; gives the summary as plain data."""
    from dataclasses import asdict

    from raycipe.framework import plugins
    from raycipe.framework.training.after import measure
    from raycipe.framework.training.plan import TrainPlan
    from raycipe.framework.training.session import train
    from raycipe.framework.training.simulated import run_simulated, simulates

    plugins.adopt([tuple(root) for root in config["roots"]])
    one_of_many = config.get("one_of_many", {})
    plan = TrainPlan(config["recipe"], config["run_dir"], config["resume"], config["start_dir"], **one_of_many)
    if simulates(plan.recipe):

        def rank_work(one: Any) -> Any:
            return train(plan, one, device, hooks if one.rank == 0 else (), after=measure)

        return asdict(run_simulated(plan.recipe, rank_work))
    return asdict(train(plan, comm, device, hooks, after=measure))
