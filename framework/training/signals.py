"""A wish to stop and the news of progress: files in the run folder, so that they reach whoever needs them wherever
workers run."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

POLL_S = 0.25


def stop_file(run_dir: str | Path) -> Path:
    return Path(run_dir) / "stop.request"


def progress_file(run_dir: str | Path) -> Path:
    return Path(run_dir) / "progress.json"


class Watch:
    """A thread of rank 0 that looks for the stop request and writes how far the run is, at no cost to the loop.

    `news` gives what to write. It is no record: losing it loses nothing, so nothing is synced.
    """

    def __init__(self, run_dir: str | Path, news: Callable[[], dict[str, Any]], active: bool = True) -> None:
        self.requested = False
        self._stop, self._progress, self._news = stop_file(run_dir), progress_file(run_dir), news
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True) if active else None

    def __enter__(self) -> Watch:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._tell()

    def _work(self) -> None:
        while not self._ended.wait(POLL_S):
            self.requested = self.requested or self._stop.exists()
            self._tell()

    def _tell(self) -> None:
        beside = self._progress.with_suffix(".tmp")
        with suppress(OSError):  # a full disk shows itself where data is at stake
            beside.write_text(json.dumps(self._news()), encoding="utf-8")
            os.replace(beside, self._progress)  # noqa: PTH105
