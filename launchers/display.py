"""What `launch` prints: the plan, a live progress bar with rate and time left, results and verdicts.

Plain lines when the output is no terminal. Everything goes to a copy of the original stdout, since Ray's own output
is sent to the run's log meanwhile.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

PLAIN_EVERY_S = 5.0
SHOWN_METRICS = 4


class Display:
    """The launch's output; `quiet` leaves only results and warnings."""

    def __init__(self, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.theme import Theme

        self.quiet = quiet
        try:
            stream: TextIO = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
        except (OSError, ValueError):  # stdout is no file: a notebook, a test's capture
            stream = sys.stdout
        self.console = Console(file=stream, highlight=False, theme=Theme({"repr.number": "none"}), soft_wrap=True)
        self.bar: Any = None
        self.task: Any = None
        self.last_line = 0.0
        self.last_step: Any = None
        self.latest: dict[str, float] = {}

    def plan(self, title: str, facts: Mapping[str, str]) -> None:
        if self.quiet:
            return
        self.console.print(f"[bold]{title}[/bold]")
        for name, value in facts.items():
            self.labelled(f"  {name:<7}", value)

    def labelled(self, label: str, value: str) -> None:
        self.console.print(f"[dim]{label}[/dim]", end="", soft_wrap=True)
        self.console.print(value, markup=False, soft_wrap=True)

    def info(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, markup=False)

    def warn(self, text: str) -> None:
        self.console.print(f"warning: {text}", markup=False, style="yellow")

    def progress(self, row: Mapping[str, Any]) -> None:
        """One update: `step`, `total_steps`, `epoch`, `examples_per_s`, `eta_s` and metrics."""
        if self.quiet:
            return
        self.latest.update(
            {name: value for name, value in row.items() if "/" in name and isinstance(value, (int, float))}
        )
        if self.console.is_terminal:
            self._live(row)
        elif time.monotonic() - self.last_line >= PLAIN_EVERY_S or self._is_end(row):
            self.last_line, self.last_step = time.monotonic(), row.get("step")
            self.console.print(plain_line(row, self.latest), markup=False)

    def _is_end(self, row: Mapping[str, Any]) -> bool:
        return row.get("step") == row.get("total_steps") and row.get("step") != self.last_step

    def _live(self, row: Mapping[str, Any]) -> None:
        if self.bar is None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = [TextColumn("  training"), BarColumn(bar_width=24), MofNCompleteColumn()]
            self.bar = Progress(*columns, TextColumn("{task.description}"), console=self.console, transient=True)
            self.task = self.bar.add_task("", total=None)
            self.bar.start()
        words = [rate_and_rest(row), *shown_metrics(self.latest)]
        self.bar.update(
            self.task,
            total=row.get("total_steps"),
            completed=row.get("step", 0),
            description="  ".join(filter(None, words)),
        )

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def results(self, result: Mapping[str, Any], run: str) -> None:
        """Final values, each expect with its verdict, and the run folder."""
        from raycipe.framework.results.report import short

        self.close()
        final = result.get("final") or {}
        if final and not self.quiet:
            self.console.print("[bold]results[/bold]")
            width = max(len(name) for name in final)
            for name, value in final.items():
                self.console.print(f"  {name:<{width}}  {short(value)}", markup=False)
        for item in result.get("skipped") or []:
            self.warn(f"{item['component']} skipped: {item['why']}")
        self._verdicts(result.get("expect") or [])
        self.labelled("run     ", run)
        if not self.quiet:
            self.labelled("report  ", f"{run}/report.html")

    def _verdicts(self, verdicts: Sequence[Mapping[str, Any]]) -> None:
        from raycipe.framework.results.report import short

        if verdicts:
            self.console.print("[bold]expected[/bold]")
        colors = {"met": "green", "skipped": "yellow"}
        for item in verdicts:
            value = f" ({short(item['value'])})" if item.get("value") is not None else ""
            color = colors.get(item["verdict"], "red")
            hint = f"  {item['hint']}" if item.get("hint") else ""
            self.console.print(f"  [{color}]{item['verdict']:<7}[/{color}] ", end="")
            self.console.print(f"{item['metric']} {item['wanted']}{value}{hint}", markup=False)


def rate_and_rest(row: Mapping[str, Any]) -> str:
    words = []
    if row.get("examples_per_s"):
        words.append(f"{row['examples_per_s']:,.0f} examples/s")
    if row.get("eta_s") is not None:
        words.append(f"{clock(row['eta_s'])} left")
    return "  ".join(words)


def shown_metrics(latest: Mapping[str, float]) -> list[str]:
    order = sorted(latest, key=lambda name: (name.partition("/")[0] not in ("train", "val"), name))
    return [f"{name} {latest[name]:.4g}" for name in order if not name.startswith(("time/", "comm/"))][:SHOWN_METRICS]


def plain_line(row: Mapping[str, Any], latest: Mapping[str, float]) -> str:
    total = f"/{row['total_steps']}" if row.get("total_steps") else ""
    epoch = f"epoch {row['epoch']:.1f}" if isinstance(row.get("epoch"), (int, float)) else ""
    return "  ".join(
        filter(None, [f"step {row.get('step', 0)}{total}", epoch, *shown_metrics(latest), rate_and_rest(row)])
    )


def clock(seconds: float) -> str:
    seconds = max(0, round(seconds))
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
