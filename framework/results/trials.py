"""The trials of a sweep as a table: what each was given and what came out, and which is the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from raycipe.framework.results.compare import leaves
from raycipe.framework.runs import Run, final_values, trials

DIVERGED = "nonfinite"  # the kind of error of a training whose loss is no number any more


class Trial(NamedTuple):
    """One trial. `status` is done, stopped (early, by the scheduler), diverged, failed, interrupted or killed."""

    run: Run
    status: str
    changes: Mapping[str, Any]
    values: Mapping[str, float]  # final value of each objective that it has
    final: Mapping[str, float]
    result: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.run.path.name

    @property
    def settings(self) -> dict[str, Any]:
        """Its values as scalars by dotted path: a component by its type and arguments."""
        found: dict[str, Any] = {}
        for path, value in self.changes.items():
            found |= leaves(value, path)
        return {path.removesuffix(".type"): value for path, value in found.items()}


def objectives_of(sweep: Mapping[str, Any]) -> dict[str, str]:
    """metric -> min or max; one, or several."""
    return dict(sweep.get("objectives") or {sweep["metric"]: sweep["mode"]})


def scheduler_of(sweep: Mapping[str, Any]) -> str:
    written = sweep["scheduler"]
    return str(written["type"] if isinstance(written, Mapping) else written)


def read_trials(run: Run, sweep: Mapping[str, Any]) -> list[Trial]:
    """Every trial of a sweep's run folder, by name."""
    goals, scheduler = objectives_of(sweep), scheduler_of(sweep)
    found = []
    for trial in trials(run):
        result = trial.read("result.json")
        final = final_values(result)
        values = {metric: final[metric] for metric in goals if metric in final}
        changes = trial.read("provenance.json").get("changes") or {}
        found.append(Trial(trial, outcome_of(result, scheduler), changes, values, final, result))
    return found


def swept_paths(found: Sequence[Trial], space: Mapping[str, Any]) -> list[str]:
    """The paths of all trials' values in the order of the sweep's space; a component's own follow it."""
    paths = dict.fromkeys(path for trial in found for path in trial.settings)
    keys = [str(key).removesuffix(".type") for key in space]

    def place(path: str) -> int:
        inside = [key for key in keys if f"{path}.".startswith(f"{key}.")]
        return keys.index(max(inside, key=len)) if inside else len(keys)

    return sorted(paths, key=place)


def outcome_of(result: Mapping[str, Any], scheduler: str) -> str:
    """How a trial ended; a training whose loss became NaN has found something out, it has not failed."""
    status = str(result.get("status") or "killed")
    if status == "failed" and (result.get("error") or {}).get("type") == DIVERGED:
        return "diverged"
    return "stopped" if status == "done" and result.get("stopped") == scheduler != "none" else status


def ranked(found: Sequence[Trial], goals: Mapping[str, str]) -> list[Trial]:
    """By the first objective, the best first: those that ran to their end, then those that were stopped early.

    A trial without a finite value is left out.
    """
    (metric, mode), *_ = goals.items()
    known = [
        trial
        for trial in found
        if trial.status in ("done", "stopped")
        and all(math.isfinite(trial.values.get(name, math.nan)) for name in goals)
    ]
    sign = 1 if mode == "min" else -1
    return sorted(known, key=lambda trial: (trial.status != "done", sign * trial.values[metric], trial.name))


def pareto(found: Sequence[Trial], goals: Mapping[str, str]) -> list[Trial]:
    """Of trials that ran to their end those that no other one beats in every objective."""
    done = [trial for trial in ranked(found, goals) if trial.status == "done"]
    points = [[trial.values[name] * (1 if mode == "min" else -1) for name, mode in goals.items()] for trial in done]

    def beaten(point: Sequence[float]) -> bool:
        return any(
            all(a <= b for a, b in zip(other, point, strict=True)) and list(other) != list(point) for other in points
        )

    return [trial for trial, point in zip(done, points, strict=True) if not beaten(point)]


def counted(found: Sequence[Trial]) -> dict[str, int]:
    """Trials by how they ended."""
    states = [trial.status for trial in found]
    return {state: states.count(state) for state in dict.fromkeys(states)}
