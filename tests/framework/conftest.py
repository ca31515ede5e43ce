"""Helpers of the language's tests: both of PyYAML's loaders, and a look at what a call opens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from hypothesis import settings

from raycipe.framework import reader

settings.register_profile("framework", derandomize=True, deadline=None)
settings.load_profile("framework")

_watching: list[list[str]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    kinds = ("open", "socket", "subprocess", "import", "os", "exec", "compile", "pickle")
    if _watching and event.split(".")[0] in kinds and not isinstance(arguments[0], int):  # a handle was a path before
        _watching[-1].append(f"{event} {arguments[0]}")


sys.addaudithook(_audit)


@contextmanager
def _watch() -> Iterator[list[str]]:
    seen: list[str] = []
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)


@pytest.fixture(scope="session")
def watch() -> Any:
    """A context manager that lists the files, sockets, processes and imports that its body asks for."""
    return _watch


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with libyaml and with pure Python."""
    monkeypatch.setattr(reader, "LOADER", getattr(yaml, request.param))
    return str(request.param)
