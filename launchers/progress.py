"""Follows a run through the files in its folder, so that it works the same wherever the workers are."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from raycipe.framework import files
from raycipe.framework.training.signals import progress_file

EVERY_S = 0.25
RATE_OVER_S = 20.0
RATE_FROM_S = 1.0  # shorter ones say nothing


class Follower:
    """Tells of new rows and of steps in between; `poll` may be called often."""

    def __init__(
        self, run_dir: str, progress: Callable[[dict[str, Any]], None], on_info: Callable[[str], None]
    ) -> None:
        self.news_path, self.rows = progress_file(run_dir), files.Follower(Path(run_dir) / "metrics.jsonl")
        self.progress, self.on_info = progress, on_info
        self.told = 0  # warnings that were passed on
        self.points: deque[tuple[float, int, int]] = deque()  # (time, step, examples)

    def poll(self) -> None:
        news = self._news()
        if news is None:
            return
        row = {**self._rate(news), **self._metrics()}
        warnings = news["warnings"][self.told :]
        self.told += len(warnings)
        for warning in warnings:
            self.on_info(f"warning: {warning}")
        self.progress(row)

    last = poll  # at the end, once more

    def _news(self) -> dict[str, Any] | None:
        try:
            news: dict[str, Any] = json.loads(self.news_path.read_text(encoding="utf-8"))
        except FileNotFoundError:  # the workers are not there yet
            return None
        return news

    def _rate(self, news: dict[str, Any]) -> dict[str, Any]:
        step, examples, now = news["step"], news["examples"], news["time"]
        if self.points and step < self.points[-1][1]:
            self.points.clear()  # a restart from a checkpoint
        if step:  # the first step pays for start-up
            self.points.append((now, step, examples))
        while len(self.points) > 2 and now - self.points[0][0] > RATE_OVER_S:
            self.points.popleft()
        row = {"step": step, "total_steps": news["total_steps"], "epoch": news["epoch"]}
        row["unit"] = news.get("unit", "examples")
        then, first, seen = self.points[0] if self.points else (now, step, examples)
        if now - then >= RATE_FROM_S and first < step < (news["total_steps"] or math.inf):
            row["examples_per_s"] = (examples - seen) / (now - then)
        if "examples_per_s" in row and news["total_steps"]:
            row["eta_s"] = (news["total_steps"] - step) * (now - then) / (step - first)
        return row

    def _metrics(self) -> dict[str, Any]:
        """Metrics of rows that were written since the last call."""
        metrics: dict[str, Any] = {}
        for row in self.rows.rows():
            metrics.update({name: value for name, value in row.items() if "/" in name})
        return metrics

    def follow(self, ended: threading.Event) -> threading.Thread:
        """Poll in a thread until `ended` is set."""

        def work() -> None:
            while not ended.wait(EVERY_S):
                self.poll()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def wait(self, done: Callable[[], bool]) -> None:
        """Poll here until `done`."""
        while not done():
            time.sleep(EVERY_S / 5)
            self._maybe()

    _next = 0.0

    def _maybe(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_S
            self.poll()
