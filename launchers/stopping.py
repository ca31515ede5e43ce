"""Ctrl-C and SIGTERM in the driver: the first saves and ends the run, the second ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from raycipe.framework.training.signals import stop_file

SAVING = "saving a checkpoint before stopping (press Ctrl-C again to stop at once)"


@contextmanager
def graceful(run_dir: str, on_info: Callable[[str], None]) -> Iterator[None]:
    """Inside, a first signal writes the stop request, a second one raises KeyboardInterrupt in the main thread."""
    if threading.current_thread() is not threading.main_thread():  # only there can handlers be set
        yield
        return
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        stop_file(run_dir).touch()
        on_info(SAVING)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
