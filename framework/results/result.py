"""result.json: the final values, each expect with its verdict, and how the run ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from raycipe.framework.results.curves import series
from raycipe.framework.runs import FORMAT, Run, utc_now

EXIT_FAILED = 1
EXIT_UNMET = 3
EXIT_INTERRUPTED = 130


def begin_attempt(run: Run, resumed_from: int | None) -> None:
    """Note in provenance.json that an attempt starts."""
    provenance = run.read("provenance.json")
    run.write("provenance.json", {**provenance, "attempts": with_attempt(provenance, resumed_from)})


def with_attempt(provenance: Mapping[str, Any], resumed_from: int | None) -> list[dict[str, Any]]:
    """The attempts of a run with one that starts now; an earlier one that never ended was killed."""
    attempts = [dict(attempt) for attempt in provenance.get("attempts") or []]
    for attempt in attempts:
        if attempt["ended"] is None:
            attempt |= {"ended": attempt["started"], "how": "killed"}
    return [*attempts, {"started": utc_now(), "ended": None, "how": "running", "resumed_from": resumed_from}]


def conclude(
    run: Run,
    recipe: Mapping[str, Any],
    recipe_hash: str,
    is_smoke: bool,
    outcome: Mapping[str, Any],
    began: float,
) -> dict[str, Any]:
    """Judge the run and write result.json and the end of provenance.json.

    `outcome` is the launcher's part (status, final, best, steps, checkpoints, error, ...), `began` the attempt's start
    as a time in seconds, `is_smoke` whether claims are judged for presence only.
    """
    from raycipe.framework.expect import judge

    before = run.read("result.json")
    status = outcome["status"]
    verdicts: list[dict[str, Any]] = []
    if status == "done":
        history = {name: [value for _, value in points] for name, points in series(run.rows()).items()}
        verdicts = judge(recipe.get("expect") or {}, outcome["final"], history, is_smoke)
    result = {
        "format": FORMAT,
        "status": status,
        "exit_code": exit_code(status, verdicts),
        "name": run.name,
        "run_id": run.id,
        "recipe_hash": recipe_hash,
        "final": outcome.get("final") or {},
        "best": outcome.get("best") or {},
        "expect": verdicts,
        "stopped": outcome.get("stopped"),
        "steps": outcome.get("steps"),
        "epochs": outcome.get("epochs"),
        "examples": outcome.get("examples"),
        "seconds": (before.get("seconds") or 0.0) + time.time() - began,
        "attempts": len(run.read("provenance.json").get("attempts") or [1]),
        "bytes_sent": outcome.get("bytes_sent"),
        "checkpoints": outcome.get("checkpoints") or [],
        "skipped": outcome.get("skipped") or [],
        "artifacts": outcome.get("artifacts") or [],
        "error": outcome.get("error"),
        **({"trials": outcome["trials"]} if "trials" in outcome else {}),
    }
    run.write("result.json", result)
    _end_attempt(run, status, outcome)
    return result


def exit_code(status: str, verdicts: Sequence[Mapping[str, Any]]) -> int:
    if status == "interrupted":
        return EXIT_INTERRUPTED
    if status != "done":
        return EXIT_FAILED
    return EXIT_UNMET if any(item["verdict"] in ("unmet", "missing") for item in verdicts) else 0


def _end_attempt(run: Run, how: str, outcome: Mapping[str, Any]) -> None:
    provenance = run.read("provenance.json")
    if attempts := provenance.get("attempts"):
        attempts[-1] |= {"ended": utc_now(), "how": how}
    provenance["finished"] = utc_now()
    provenance |= {
        name: outcome[name] for name in ("ray", "gpus", "threads", "data", "deterministic") if name in outcome
    }
    run.write("provenance.json", provenance)
