"""What `launch` prints: the plan, a live progress bar with rate and time left, results and verdicts.

Plain lines when the output is no terminal. Everything goes to a copy of the original stdout, since Ray's own output
is sent to the run's log meanwhile.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

PLAIN_EVERY_S = 5.0
FIRST = ("loss", "accuracy", "eval_return", "episode_return")  # what most people look for
SHOWN_METRICS = 4
BAR_WIDTH = 24
QUIET = ("estimator/cv_", "measure/")  # beside the first group


class Display:
    """The launch's output; `quiet` leaves only results and warnings."""

    def __init__(self, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.theme import Theme

        self.quiet = quiet

        class Screen(Console):
            """The reader may go away (`| head`, a lost connection): then nothing is shown, and the run goes on."""

            def on_broken_pipe(self) -> None:
                self.quiet = True

        self.console = Screen(file=own_stdout(), highlight=False, theme=Theme({"repr.number": "none"}), soft_wrap=True)
        self.bar: Any = None
        self.log: Path | None = None
        self.last_line = 0.0
        self.last_step: Any = None
        self.latest: dict[str, float] = {}

    def log_to(self, path: Path) -> None:
        """From now on every printed line also goes to the run's log."""
        self.log = path

    def line(self, text: str, style: str | None = None) -> None:
        self._print(text, style)
        self._record(text)

    def _print(self, text: str, style: str | None, end: str = "\n") -> None:
        try:
            self.console.print(text, markup=False, style=style, soft_wrap=True, end=end)
        except OSError:  # a full disk behind `>`: the run's own files matter more
            self.console.quiet = True

    def heading(self, text: str) -> None:
        self.line(text, "bold")

    def labelled(self, label: str, value: str, style: str = "dim") -> None:
        self._print(label, style, end="")
        self._print(value, None)
        self._record(label + value)

    def _record(self, text: str) -> None:
        if self.log is not None:
            with suppress(OSError), self.log.open("a", encoding="utf-8") as file:  # a full disk must not end a run
                file.write(text + "\n")

    def plan(self, title: str, facts: Mapping[str, str]) -> None:
        if self.quiet:
            return
        self.heading(title)
        for name, value in facts.items():
            self.labelled(f"  {name:<7}", value)

    def info(self, text: str) -> None:
        if self.quiet:
            self._record(text)
        else:
            self.line(text)

    def say(self, text: str) -> None:
        """A line of a launcher: its warnings are shown even by a quiet launch."""
        if text.startswith("warning: "):
            self.warn(text.removeprefix("warning: "))
        else:
            self.info(text)

    def warn(self, text: str) -> None:
        self.line(f"warning: {text}", "yellow")

    def progress(self, row: Mapping[str, Any]) -> None:
        """One update: `step`, `total_steps`, `epoch`, `examples_per_s`, `eta_s` and metrics.

        Of a run of many parts instead a `line`, and a `table` (width -> what rich can print) for terminals.
        """
        if self.quiet:
            return
        if "line" in row:
            self._table(row)
            return
        known = {name: value for name, value in row.items() if "/" in name and isinstance(value, (int, float))}
        self.latest.update(known)
        if self.console.is_terminal:
            self._live(row)
        elif row.get("step") != self.last_step and (self._is_time() or row.get("step") == row.get("total_steps")):
            self.last_line, self.last_step = time.monotonic(), row.get("step")
            self.line(plain_line(row, self.latest))

    def _is_time(self) -> bool:
        return time.monotonic() - self.last_line >= PLAIN_EVERY_S

    def _table(self, row: Mapping[str, Any]) -> None:
        if self.console.is_terminal:
            self._show(row["table"](self.console.width))
        elif row["line"].partition("  best")[0] != self.last_step and self._is_time():
            self.last_line, self.last_step = time.monotonic(), row["line"].partition("  best")[0]
            self.line(row["line"])

    def _live(self, row: Mapping[str, Any]) -> None:
        from rich.text import Text

        self._show(Text(bar_line(row, self.latest, self.console.width), no_wrap=True, overflow="crop"))

    def _show(self, content: Any) -> None:
        """Something that stays at the bottom of the terminal until it is replaced."""
        if self.bar is None:
            from rich.live import Live

            # Ray's output goes to the log by file number: rich must not catch it here.
            self.bar = Live(console=self.console, transient=True, redirect_stdout=False, redirect_stderr=False)
            self.bar.start()
        self.bar.update(content)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def results(self, result: Mapping[str, Any], run: str) -> None:
        """Final values, how it ended, each expect with its verdict, and the run folder."""
        from raycipe.framework.results.report import endings, short

        self.close()
        final = chosen(result.get("final") or {}, self.quiet)
        if final:
            self.heading("results")
            width = max(len(name) for name in final)
            for name, value in final.items():
                self.line(f"  {name:<{width}}  {short(value)}")
        for text in endings(result):
            self.line(text)
        for item in result.get("skipped") or []:
            self.warn(f"{item['component']} skipped: {item['why']}")
        self._verdicts(result.get("expect") or [])
        self.labelled("run     ", run)
        if not self.quiet:
            self.labelled("report  ", f"{run}/report.html")

    def _verdicts(self, verdicts: Sequence[Mapping[str, Any]]) -> None:
        from raycipe.framework.results.report import short

        if verdicts:
            self.heading("expected")
        colors = {"met": "green", "skipped": "yellow"}
        for item in verdicts:
            value = f" ({short(item['value'])})" if item.get("value") is not None else ""
            color = colors.get(item["verdict"], "red")
            hint = f"  {item['hint']}" if item.get("hint") else ""
            if item["verdict"] == "skipped":
                hint = "  a smoke run: only its presence was judged"
            self.labelled(f"  {item['verdict']:<7} ", f"{item['metric']} {item['wanted']}{value}{hint}", color)


def own_stdout() -> TextIO:
    """A copy of stdout that stays where it is when Ray's output is sent to the log."""
    if sys.stdout is None:  # closed by the shell
        return open(os.devnull, "w", encoding="utf-8")
    try:
        copy = os.dup(sys.stdout.fileno())
    except (OSError, ValueError):  # no file: a notebook, a test's capture
        return sys.stdout
    return os.fdopen(copy, "w", buffering=1, encoding=sys.stdout.encoding, errors="replace")


def chosen(final: Mapping[str, Any], quiet: bool) -> dict[str, Any]:
    """The final values to print, held-out splits first; quiet leaves the first group, and what a claim is made of."""
    from raycipe.framework.results.report import by_group, group_rank

    first = min(map(group_rank, final), default=0)

    def is_kept(name: str) -> bool:
        return group_rank(name) == first or name.startswith(QUIET)

    return {name: value for name, value in by_group(final).items() if not quiet or is_kept(name)}


def bar_line(row: Mapping[str, Any], latest: Mapping[str, float], width: int) -> str:
    """The live line: step, a bar, time left, rate and metrics; what does not fit is left out from the right."""
    step, total = row.get("step", 0), row.get("total_steps")
    head = f"  step {step}/{total} " if total else f"  step {step} "
    room = min(BAR_WIDTH, max(0, width - len(head) - 16))
    full = round(room * step / total) if total else 0
    line = head + "━" * full + "╌" * (room - full)
    for word in filter(None, [time_left(row), rate(row), *shown_metrics(latest)]):
        if len(line) + 2 + len(word) >= width:
            break
        line += f"  {word}"
    return line


def rate(row: Mapping[str, Any]) -> str:
    return f"{row['examples_per_s']:,.0f} {row.get('unit', 'examples')}/s" if row.get("examples_per_s") else ""


def time_left(row: Mapping[str, Any]) -> str:
    return f"{clock(row['eta_s'])} left" if row.get("eta_s") is not None else ""


def shown_metrics(latest: Mapping[str, float]) -> list[str]:
    def rank(name: str) -> tuple[bool, bool, str]:
        group, _, word = name.partition("/")
        return group not in ("train", "val", "rl"), word not in FIRST, name

    order = sorted(latest, key=rank)
    return [f"{name} {latest[name]:.4g}" for name in order if not name.startswith(("time/", "comm/"))][:SHOWN_METRICS]


def plain_line(row: Mapping[str, Any], latest: Mapping[str, float]) -> str:
    total = f"/{row['total_steps']}" if row.get("total_steps") else ""
    epoch = f"epoch {row['epoch']:.1f}" if isinstance(row.get("epoch"), (int, float)) else ""
    words = [f"step {row.get('step', 0)}{total}", epoch, *shown_metrics(latest), rate(row), time_left(row)]
    return "  ".join(filter(None, words))


def clock(seconds: float) -> str:
    seconds = max(0, round(seconds))
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
