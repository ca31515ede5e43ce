"""How an attempt ended: the launcher's part of result.json, whatever happened."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from raycipe.framework.errors import NotStarted, RecipeError, RunError
from raycipe.framework.training.signals import progress_file, stop_file

Progress = Callable[[dict[str, Any]], None]
Say = Callable[[str], None]


def outcome_of(
    run_dir: str, body: Callable[[], Mapping[str, Any]], last: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """The outcome of `body`, whose failure becomes its `error`. What can't start passes through.

    `last` is called at the end, while the signals of the run are still there.
    """
    clear_signals(run_dir)
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
    last()
    clear_signals(run_dir)
    return outcome


def outcome_with_rows(
    run_dir: str, body: Callable[[], Mapping[str, Any]], last: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """As `outcome_of`, for a run that writes rows and checkpoints by itself: what it left counts if it was ended."""
    outcome = outcome_of(run_dir, body, last)
    if outcome["status"] != "done":
        fill_from_folder(outcome, run_dir)
    return outcome


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
