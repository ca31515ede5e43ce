"""What a sweep shows while it runs: its best trials, how many are done, failed and running, the time left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ray.tune import Callback

from raycipe.framework.results.report import short
from raycipe.framework.results.trials import outcome_of
from raycipe.framework.results.turned import short_names
from raycipe.launchers.display import clock
from raycipe.launchers.trial import Base, not_run, settle
from raycipe.launchers.tune_schedulers import TIME, score
from raycipe.launchers.tune_search import Plan, name_of

SHOWN = 8  # trials
WIDEST = 28  # characters of a value
ALWAYS_WHOLE = 3  # columns that a narrow terminal leaves as they are


class Entry:
    """One trial as the table shows it."""

    def __init__(self, changes: Mapping[str, Any]) -> None:
        self.changes = dict(changes)
        self.status = "running"
        self.value: float | None = None  # of the first objective
        self.others: list[float | None] = []  # of the further ones, known at the end
        self.evaluations = 0


class Board(Callback):  # type: ignore[misc]
    """Hears of every trial from Ray Tune, in its thread; the display asks from another one."""

    def __init__(self, plan: Plan, base: Base, on_info: Callable[[str], None]) -> None:
        self.plan, self.base, self.on_info = plan, base, on_info
        (self.metric, self.mode), *_ = plan.objectives.items()
        self.other_metrics = list(plan.objectives)[1:]
        self.entries: dict[int, Entry] = {}
        self.lock = threading.Lock()
        self.began, self.ended_here = time.monotonic(), 0
        for number in sorted(plan.done):
            entry = self.entries[number] = Entry(plan.known[number])
            self._conclude(entry, number)

    def __reduce__(self) -> Any:
        """Tune writes what it is given to the disk; of this nothing is read again."""
        return Callback, ()

    # ------------------------------------------------------------------------------------------ told by Tune

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        number, changes = trial.config["number"], trial.config["changes"]
        with self.lock:
            if number not in self.entries or self.entries[number].status != "running":
                self.entries[number] = Entry(changes)
            self.entries[number].changes = dict(changes)

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        with self.lock:
            entry = self.entries[trial.config["number"]]
            entry.evaluations = int(result.get(TIME) or 0)
            if isinstance(result.get("value"), (int, float)):
                entry.value = float(result["value"])

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        number = trial.config["number"]
        ended = (trial.last_result or {}).get("ended")
        folder = self.plan.folder(number)
        if (
            ended is None
            and self.plan.scheduler != "none"
            and folder.read("result.json").get("status") == "interrupted"
        ):
            settle(folder, self.plan.scheduler)  # stopped while it was paused
        with self.lock:
            entry = self.entries[number]
            self.ended_here += 1
            if ended is None:
                entry.status = "stopped"
            else:
                self._conclude(entry, number)
        if entry.status == "failed":
            self._tell_failure(number)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        number = trial.config["number"]
        message = f"the trial's process died {trial.num_failures} times: memory may have run out"
        error = {"type": "worker", "message": message, "where": None, "step": None, "trial": name_of(number)}
        not_run(self.base, name_of(number), trial.config["changes"], error)
        with self.lock:
            self.entries[number].status = "failed"
            self.ended_here += 1
        self._tell_failure(number)

    def _conclude(self, entry: Entry, number: int) -> None:
        result = self.plan.folder(number).read("result.json")
        final = result.get("final") or {}
        values = [final.get(metric) for metric in self.plan.objectives]
        entry.value, *entry.others = [float(value) if isinstance(value, (int, float)) else None for value in values]
        entry.status = outcome_of(result, self.plan.scheduler)

    def _tell_failure(self, number: int) -> None:
        error = self.plan.folder(number).read("result.json").get("error") or {}
        self.on_info(
            f"warning: trial {name_of(number)} failed ({told(self.entries[number].changes)}): {error.get('message')}"
        )

    # ------------------------------------------------------------------------------------------ shown

    def counts(self) -> dict[str, int]:
        with self.lock:
            states = [entry.status for entry in self.entries.values()]
        stopped = sum(state.startswith("stopped") for state in states)
        found = {"done": states.count("done") + stopped, "of": self.plan.count, "running": states.count("running")}
        return {**found, "stopped": stopped, "diverged": states.count("diverged"), "failed": states.count("failed")}

    def ranked(self) -> list[tuple[int, Entry]]:
        """The trials that have a value, the best first; those that ended early or failed behind the others."""
        with self.lock:
            known = [(number, entry) for number, entry in self.entries.items() if entry.value is not None]
        late = ("stopped", "failed", "diverged")
        return sorted(
            known, key=lambda item: (item[1].status.startswith(late), -score(item[1].value, self.mode), item[0])
        )

    def head(self) -> str:
        counts = self.counts()
        words = [f"{counts['done']}/{counts['of']} trials done"]
        words += [f"{counts[name]} {name}" for name in ("running", "stopped", "diverged", "failed") if counts[name]]
        left = self.seconds_left(counts)
        words += [f"{clock(left)} left"] if left is not None else []
        best = [(number, entry) for number, entry in self.ranked() if entry.status == "done"]
        if best:
            words.append(f"best {self.metric} {short(best[0][1].value)} (trial {name_of(best[0][0])})")
        return "  ".join(words)

    def seconds_left(self, counts: Mapping[str, int]) -> float | None:
        """From the pace of the trials that ended in this attempt."""
        rest = counts["of"] - counts["done"] - counts["failed"] - counts["diverged"]
        if not self.ended_here or not rest:
            return None
        return rest * (time.monotonic() - self.began) / self.ended_here

    def table(self, width: int) -> Any:
        """The best trials, in the columns that `width` has room for."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        titles = short_names(self.plan.sweep["space"])
        rows = [["trial", "state", self.metric, *self.other_metrics, *titles.values()]]
        for number, entry in self.ranked()[:SHOWN]:
            state = entry.status if entry.status != "running" else f"running {entry.evaluations}"
            values = [cut(written(entry.changes.get(path))) for path in titles]
            others = [
                "" if value is None else short(value) for value in entry.others or [None] * len(self.other_metrics)
            ]
            rows.append([name_of(number), state, short(entry.value), *others, *values])
        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
        for index, title in enumerate(rows[0]):
            widest = max(len(row[index]) for row in rows)
            table.add_column(
                Text(title), no_wrap=True, overflow="ellipsis", min_width=widest if index < ALWAYS_WHOLE else None
            )
        for row in rows[1:]:
            table.add_row(*row)
        return Group(Text(self.head(), no_wrap=True, overflow="ellipsis"), *([table] if len(rows) > 1 else []))


def written(value: Any) -> str:
    """A value as a table shows it: numbers short, a component as `type argument=value ...`."""
    if isinstance(value, Mapping):
        rest = " ".join(f"{key}={written(child)}" for key, child in value.items() if key != "type")
        return f"{value.get('type', '')} {rest}".strip()
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    return short(value) if isinstance(value, float) else str(value)


def told(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{path}={written(value)}" for path, value in changes.items())


def cut(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
