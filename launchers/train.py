"""Runs a recipe with task, model and optimizer: in this process (`num_workers: 0`), or with Ray Train.

Only light imports stand at the top: Ray's workers import this module before anything else.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from raycipe.framework.errors import NotStarted, RecipeError, RunError
from raycipe.framework.training.signals import progress_file, stop_file

Progress = Callable[[dict[str, Any]], None]
Say = Callable[[str], None]


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

    clear_signals(run_dir)
    follower = Follower(run_dir, progress, on_info)

    def body() -> Mapping[str, Any]:
        config = _config(recipe, run_dir, resume, roots)
        if _workers(recipe) == 0:
            from raycipe.launchers.local import run_here

            return run_here(config, prepare, follower, on_info)
        from raycipe.launchers.cluster import run_on_ray

        return run_on_ray(config, prepare, follower, on_info, insecure, verbose, dashboard)

    outcome = told(run_dir, body)
    follower.last()
    clear_signals(run_dir)
    if outcome["status"] != "done":
        fill_from_folder(outcome, run_dir)
    return outcome


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

    clear_signals(run_dir)

    def body() -> Mapping[str, Any]:
        one_of_many = {"took_over": took_over, "spacing_s": spacing_s, "keeps_data": True}
        config = {**_config(recipe, run_dir, resume, roots), "one_of_many": one_of_many}
        return work(config, LocalComm(), device_of(recipe), hooks)

    outcome = told(run_dir, body)
    clear_signals(run_dir)
    if outcome["status"] != "done":
        fill_from_folder(outcome, run_dir)
    return outcome


def told(run_dir: str, body: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The outcome of `body`, whose failure becomes its `error`. What can't start passes through."""
    outcome = empty_outcome()
    try:
        outcome.update(body())
    except (RecipeError, NotStarted):
        raise
    except KeyboardInterrupt:
        outcome["status"] = "interrupted"
    except SystemExit as error:
        if error.code == signal.SIGTERM:  # Ray's own handler, while it starts
            outcome["status"] = "interrupted"
        else:
            outcome.update(status="failed", error=describe(left_by_component(error), run_dir))
    except Exception as error:  # noqa: BLE001 - whatever failed: the run folder must tell it
        outcome.update(status="failed", error=describe(error, run_dir))
    return outcome


def _config(recipe: Mapping[str, Any], run_dir: str, resume: bool, roots: Sequence[Any]) -> dict[str, Any]:
    """What `work` is told."""
    return {
        "recipe": dict(recipe),
        "run_dir": run_dir,
        "resume": resume,
        "start_dir": find_start_dir(recipe, run_dir),
        "roots": [tuple(root) for root in roots],
    }


def clear_signals(run_dir: str) -> None:
    """Files that mean something only while the run is alive."""
    for file in (stop_file(run_dir), progress_file(run_dir)):
        file.unlink(missing_ok=True)


def left_by_component(error: SystemExit) -> RunError:
    return RunError(
        "component", f"a component ended the process (sys.exit({error.code}))", "it must raise an error instead"
    )


def empty_outcome() -> dict[str, Any]:
    return {
        "status": "done",
        "stopped": None,
        "final": {},
        "best": {},
        "steps": None,
        "epochs": None,
        "examples": None,
        "bytes_sent": None,
        "checkpoints": [],
        "skipped": [],
        "artifacts": [],
        "warnings": [],
        "error": None,
        "ray": None,
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


def describe(error: BaseException, run_dir: str) -> dict[str, Any]:
    """An exception as the `error` of result.json; what nobody expected goes to log.txt with its traceback."""
    if isinstance(error, RunError):
        return {"type": error.kind, "message": str(error), "where": error.where, "step": error.step, "trial": None}
    import traceback

    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    with suppress(OSError), (Path(run_dir) / "log.txt").open("a", encoding="utf-8") as log:
        log.write(text)  # a full disk, or a folder that is gone: the message tells the error all the same
    notes = "".join(f"\n    {note}" for note in getattr(error, "__notes__", []))
    frame = _last_frame(error)
    message = f"{type(error).__name__}: {error}{notes}{frame}"
    return {"type": type(error).__name__, "message": message, "where": None, "step": None, "trial": None}


def _last_frame(error: BaseException) -> str:
    import traceback

    frames = list(traceback.extract_tb(error.__traceback__))
    frames = [frame for frame in frames if "site-packages" not in frame.filename] or frames  # the user's own, if any
    return f"\n    in {frames[-1].filename}:{frames[-1].lineno}, {frames[-1].name}" if frames else ""


def fill_from_folder(outcome: dict[str, Any], run_dir: str) -> None:
    """What an interrupted or failed run left behind."""
    from raycipe.framework.comm import LocalComm
    from raycipe.framework.files import read_rows
    from raycipe.framework.training.store import Store

    if not outcome["final"]:
        for row in read_rows(Path(run_dir) / "metrics.jsonl"):
            outcome["final"].update({name: value for name, value in row.items() if "/" in name})
            outcome["steps"], outcome["epochs"] = row["step"], row["epoch"]
    if not outcome["checkpoints"]:
        steps = Store(Path(run_dir) / "checkpoints", LocalComm()).steps()
        outcome["checkpoints"] = [
            {"path": f"checkpoints/step-{step:08d}", "step": step, "best": False} for step in steps
        ]


def work(config: Mapping[str, Any], comm: Any, device: Any, hooks: Sequence[Any] = ()) -> dict[str, Any]:
    """One rank's part of a run, in whatever process; gives the summary as plain data."""
    from dataclasses import asdict

    from raycipe.framework import plugins
    from raycipe.framework.training.after import measure
    from raycipe.framework.training.plan import TrainPlan
    from raycipe.framework.training.session import train

    plugins.adopt([tuple(root) for root in config["roots"]])
    one_of_many = config.get("one_of_many", {})
    plan = TrainPlan(config["recipe"], config["run_dir"], config["resume"], config["start_dir"], **one_of_many)
    return asdict(train(plan, comm, device, hooks, after=measure))
