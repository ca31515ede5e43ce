"""Many independent parts of a run, at the same time as Ray tasks or one after the other in this process.

What a part gives does not depend on where or when it ran: everything random comes from its own arguments.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from raycipe.framework.errors import counted

Work = Callable[[Any, Any], Any]
POLL_S = 0.25


class Stopped(KeyboardInterrupt):
    """Somebody asked to stop: what has ended is kept."""


class Places(NamedTuple):
    """How many parts run at a time (0: in this process), and what Ray reserves for each."""

    at_a_time: int
    options: Mapping[str, Any] = {}


def fan_out(
    work: Work,
    shared: Any,
    items: Sequence[Any],
    places: Places,
    *,
    on_end: Callable[[int, Any], None] = lambda number, result: None,
    on_lost: Callable[[int, str], Any] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[Any]:
    """`work(shared, item)` for every item; results in the order of the items, told to `on_end` as they come.

    A lost worker's part runs again elsewhere, as often as the options' `max_retries` says; then `on_lost` gives its
    result from what happened, or the failure is raised. Raises Stopped when `is_stopped`; parts that run end first.
    """
    results: dict[int, Any] = {}
    for number, result in _ended(work, shared, items, places, on_lost, is_stopped):
        results[number] = result
        on_end(number, result)
    if len(results) < len(items):
        raise Stopped
    return [results[number] for number in range(len(items))]


def _ended(
    work: Work, shared: Any, items: Sequence[Any], places: Places, on_lost: Any, is_stopped: Callable[[], bool]
) -> Iterator[tuple[int, Any]]:
    if places.at_a_time:
        yield from _on_ray(work, shared, items, places, on_lost, is_stopped)
        return
    for number, item in enumerate(items):
        if is_stopped():
            return
        yield number, work(shared, item)


def _on_ray(
    work: Work, shared: Any, items: Sequence[Any], places: Places, on_lost: Any, is_stopped: Callable[[], bool]
) -> Iterator[tuple[int, Any]]:
    import ray

    task: Any = ray.remote(**places.options)(work) if places.options else ray.remote(work)
    there = ray.put(shared)
    waiting = deque(enumerate(items))
    running: dict[Any, int] = {}
    while running or waiting:
        while waiting and len(running) < places.at_a_time and not is_stopped():
            number, item = waiting.popleft()
            running[task.remote(there, item)] = number
        if not running:
            return
        for done in ray.wait(list(running), timeout=POLL_S)[0]:
            number = running.pop(done)
            try:
                yield number, ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise error.cause or error from None
            except ray.exceptions.RayError as error:  # its process or node died, more often than allowed
                if on_lost is None:
                    raise
                yield number, on_lost(number, " ".join(str(error).split())[:300])


def mapper(places: Places) -> Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]:
    """A `map` over these places, for `Trained.fan_out`."""
    if not places.at_a_time:
        return map
    return lambda function, items: iter(fan_out(_call, function, list(items), places))


def _call(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


class Tally:
    """How many parts have ended, and the time that the others will take."""

    def __init__(self, what: str, total: int, before: int, progress: Callable[..., None]) -> None:
        self.what, self.total, self.before, self.progress = what, total, before, progress
        self.ended = self.failed = 0
        self.began = time.monotonic()

    def end(self, is_failed: bool = False) -> None:
        self.ended += 1
        self.failed += is_failed
        self.tell()

    def tell(self) -> None:
        from rich.text import Text

        line = self.line()
        self.progress({"line": line, "table": lambda width: Text(line, no_wrap=True, overflow="crop")})

    def line(self) -> str:
        from raycipe.launchers.display import clock

        done = self.before + self.ended
        words = [f"{done} of {counted(self.total, self.what)}"]
        if self.failed:
            words.append(f"{self.failed} failed")
        left = self.total - done
        if self.ended and left:
            words.append(f"{clock((time.monotonic() - self.began) / self.ended * left)} left")
        return "  " + ", ".join(words)
