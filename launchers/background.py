"""Work in a thread, whose failure is raised where somebody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """Work in a thread; `wait` gives its failure."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by `wait`
            self.error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def finish(self) -> None:
        self._thread.join()

    def wait(self) -> None:
        self.finish()
        if self.error is not None:
            raise self.error
