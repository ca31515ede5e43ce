"""Atomic files and strict JSON: nobody ever reads a half-written result."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from raycipe.framework.errors import RunError


def write_atomic(path: Path, content: str | bytes, sync: bool = True) -> None:
    """Write to a temporary name in the same folder, fsync, rename. The old content stays until the new is complete.

    Without `sync` that holds if the process dies, not if the machine does: until `fsync` is called for the file.
    """
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.chmod(name, 0o644)  # noqa: PTH101 - mkstemp makes private files, run folders are shared
        os.replace(name, path)  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise


def fsync(path: Path) -> None:
    """Bring a file or the entries of a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def finite(value: Any) -> Any:
    """The same data with NaN and infinities as the texts that strict JSON can hold; read back by `number`."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: finite(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(child) for child in value]
    return value


def number(value: Any) -> Any:
    """The number that `finite` wrote as a text; everything else as it is."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def to_json(value: Any) -> str:
    return json.dumps(finite(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def canonical_hash(value: Any) -> str:
    """sha256 of the canonical JSON (sorted keys, no spaces)."""
    text = json.dumps(finite(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a metrics.jsonl; a torn last line (a killed writer) is left out. Raises RunError on a damaged one."""
    if not path.exists():
        return
    try:
        opened = path.open("rb")
    except OSError as error:
        raise RunError("storage", f"{path}: damaged ({error.strerror})") from error
    with opened as file:
        for count, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            yield _row(line, f"{path}:{count}")


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise RunError("storage", f"{where}: damaged ({error})") from error
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        raise RunError("storage", f"{where}: damaged (no row with a step)")
    return {key: number(value) for key, value in row.items()}


class Follower:
    """New complete rows of a growing metrics.jsonl; all of them again when a restarted attempt has rewritten it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = 0
        self.file_number = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            state = os.fstat(file.fileno())
            if state.st_ino != self.file_number or state.st_size < self.position:
                self.file_number, self.position = state.st_ino, 0
            file.seek(self.position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.position += len(line)
                yield _row(line, str(self.path))
