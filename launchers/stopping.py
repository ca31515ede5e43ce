"""Ctrl-C and SIGTERM in the driver, in the three parts of a launch: before training, while it trains, and after it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from raycipe.framework.training.signals import stop_file

SAVING = "saving a checkpoint before stopping (press Ctrl-C again to stop at once)"
STARTING = "stopping as soon as Ray has started (press Ctrl-C again to stop at once)"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_INTERRUPTED = 130
Handler = Callable[[int, FrameType | None], None]


@contextmanager
def handled(handler: Handler) -> Iterator[None]:
    """Inside, signals go to `handler`; outside the main thread nothing changes, since handlers can't be set there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def at_once(abandon: Callable[[], None]) -> Handler:
    """Before training there is nothing to save: tidy up and leave, without the exit work of half-imported libraries."""

    def handle(number: int, frame: FrameType | None) -> None:
        for other in SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        abandon()
        os._exit(EXIT_INTERRUPTED)

    return handle


@contextmanager
def graceful(run_dir: str, on_info: Callable[[str], None], text: str = SAVING) -> Iterator[None]:
    """Inside, a first signal writes the stop request, a second one raises KeyboardInterrupt in the main thread.

    Afterwards signals wait for the results to be written: whoever holds the handlers outside restores them.
    """
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        stop_file(run_dir).touch()
        on_info(text)

    with handled(handle):
        yield
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, finishing)


def finishing(number: int, frame: FrameType | None) -> None:
    """The run is over and its results are being written: not a moment to stop."""
