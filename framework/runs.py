"""The run folder: one folder a run, `<storage>/<name>/<time>-<4 characters>/`, that anyone can read.

`recipe.yaml` and its bases as written, `resolved.yaml` as run, `provenance.json`, `metrics.jsonl`, `result.json`,
`log.txt`, `checkpoints/`, `artifacts/`, `report.html`.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from raycipe.framework.errors import RunError
from raycipe.framework.files import number, read_rows, to_json, write_atomic
from raycipe.framework.recorded import PROVENANCE, RESULT, is_sound

RUN_ID = re.compile(r"\d{4}-\d\d-\d\d-\d{6}-[a-z2-7]{4}")
TRIALS = "trials"  # the folder of a sweep's or study's run that holds its trials, each a run folder
CHECKPOINT = re.compile(r"step-(\d{8,})")
ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
FORMAT = 1
LOCK_TRIES = 10


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Run:
    """A run folder on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def parent(self) -> Run | None:
        """The run that this one is a trial of, if it is one: a sweep or a study."""
        above = self.path.parent.parent
        is_trial = self.path.parent.name == TRIALS and (above / "provenance.json").exists()
        return Run(above) if is_trial else None  # a recipe may be called `trials`, too

    @property
    def id(self) -> str:
        return f"{self.parent.id}/{self.path.name}" if self.parent else self.path.name

    @property
    def name(self) -> str:
        return self.parent.name if self.parent else self.path.parent.name

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def read(self, file: str) -> dict[str, Any]:
        """A JSON file of the folder, {} where it does not exist (a run that was killed has no result)."""
        path = self.path / file
        if not path.exists():
            return {}
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError, RecursionError) as error:
            raise RunError("storage", f"{path}: damaged ({error})") from error
        if not is_sound(content, PROVENANCE if file == "provenance.json" else RESULT):
            raise RunError("storage", f"{path}: damaged (not what Raycipe writes)")
        if content.get("format", FORMAT) > FORMAT:
            raise RunError("storage", f"{path}: written by a newer Raycipe", "upgrade raycipe to read this run")
        return content

    def write(self, file: str, content: Any, sync: bool = True) -> None:
        """Write a file of the folder whole or not at all; `sync` as in `write_atomic`."""
        try:
            write_atomic(self.path / file, content if isinstance(content, (str, bytes)) else to_json(content), sync)
        except OSError as error:
            raise _unwritable(self.path / file, error) from error

    def rows(self) -> Iterator[dict[str, Any]]:
        return read_rows(self.path / "metrics.jsonl")

    def resolved(self) -> dict[str, Any]:
        """The resolved recipe as plain data."""
        from raycipe.framework.reader import read_file
        from raycipe.framework.tree import plain

        value = plain(read_file(str(self.path / "resolved.yaml")))
        assert isinstance(value, dict)  # the reader refuses any other top
        return value

    def status(self) -> str:
        """`done`, `failed`, `interrupted`, `running` (somebody holds the lock) or `killed`."""
        status = self.ended()
        return "running" if self.is_locked() else status

    def ended(self) -> str:
        """How the last attempt ended, whoever holds the folder now: `done`, `failed`, `interrupted` or `killed`."""
        status = self.read("result.json").get("status")
        if not status and (self.path / "result.json").exists():
            raise RunError("storage", f"{self.path / 'result.json'}: damaged (it has no status)")
        attempts = self.read("provenance.json").get("attempts") or []
        begun = bool(attempts) and attempts[-1].get("ended") is None  # the result is of an attempt before
        return str(status) if status and not begun else "killed"

    def is_locked(self) -> bool:
        """Whether a launch holds the folder. A look that changes nothing, on a read-only file system too."""
        import fcntl

        try:
            handle = os.open(self.path / "lock", os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder: a second launch into it is refused. The lock dies with the process."""

        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        try:
            try:
                _lock(handle)
            except BlockingIOError as error:
                holder = os.read(handle, 200).decode(errors="replace").strip() or "another process"
                raise RunError(
                    "storage", f"{self.path}: in use by {holder}", "wait for it, or end that process first"
                ) from error
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
            yield
            os.ftruncate(handle, 0)
        finally:
            os.close(handle)


def _lock(handle: int) -> None:
    """An exclusive lock; a few tries, since a look at the lock (`is_locked`) holds it for a moment."""
    import fcntl

    for _ in range(LOCK_TRIES - 1):
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.02)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unwritable(path: Path, error: OSError) -> RunError:
    return RunError(
        "storage",
        f"{path}: can't write there: {error.strerror or error}",
        "choose another folder with --storage DIR",
    )


def create(storage: str | Path, name: str) -> Run:
    """A new, empty run folder under `storage`."""
    home = Path(storage).absolute() / name
    try:
        home.mkdir(parents=True, exist_ok=True)
        while True:
            stamp = datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S")
            path = home / f"{stamp}-{''.join(secrets.choice(ALPHABET) for _ in range(4))}"
            try:
                path.mkdir()
                break
            except FileExistsError:
                continue
        _make_folders(path)
        point_latest(home)
    except OSError as error:
        raise _unwritable(home, error) from error
    return Run(path)


def create_trial(parent: Run, name: str) -> Run:
    """The run folder of the trial `name` of a sweep or study; the one that is there, if an attempt made it before."""
    path = parent.path / TRIALS / name
    try:
        path.mkdir(parents=True, exist_ok=True)
        _make_folders(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    return Run(path)


def trials(parent: Run) -> list[Run]:
    """The trials of a run by name."""
    return [Run(path.parent) for path in sorted((parent.path / TRIALS).glob("*/provenance.json"))]


def _make_folders(path: Path) -> None:
    for folder in ("artifacts", "checkpoints"):
        (path / folder).mkdir(exist_ok=True)


def point_latest(home: Path) -> None:
    """Let `latest` lead to the newest run of a recipe. A convenience: file systems without links go without it."""
    names = sorted(path.name for path in home.iterdir() if RUN_ID.fullmatch(path.name))
    with suppress(OSError):
        if not names:
            (home / "latest").unlink(missing_ok=True)
            home.rmdir()
            return
        temporary = home / f".latest-{names[-1]}"
        temporary.symlink_to(names[-1])
        os.replace(temporary, home / "latest")  # noqa: PTH105


def find_all(storage: str | Path, name: str | None = None) -> list[Run]:
    """Every run under `storage` (of one recipe name, if given), oldest first."""
    found = [
        Run(path)
        for path in Path(storage).absolute().glob(f"{name or '*'}/*")
        if RUN_ID.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    ]
    return sorted(found, key=lambda run: (run.id[:17], _made_ns(run), run.id))


def _made_ns(run: Run) -> int:
    """When the run was made: its recipe is written once. Tells runs of one second apart."""
    recipe = run.path / "recipe.yaml"
    return recipe.stat().st_mtime_ns if recipe.exists() else 0


def checkpoint_steps(folder: str | Path) -> list[int]:
    """The steps of a run's committed checkpoints, oldest first."""
    matches = [CHECKPOINT.fullmatch(path.name) for path in Path(folder, "checkpoints").glob("step-*")]
    return sorted(int(match[1]) for match in matches if match)


def find(text: str, storage: str | Path = "runs", other_than: Run | None = None) -> Run:
    """The run that a user means: a folder, `NAME` (its newest run), an id, or the end of an id (`k3f9`).

    `other_than` is a run that is never meant: the one that asks.
    """
    path = Path(text)
    if (path / "provenance.json").exists() or (path.is_dir() and RUN_ID.fullmatch(path.resolve().name)):
        return begun(Run(path.resolve()))
    runs = [run for run in find_all(storage) if other_than is None or run.path != other_than.path]
    for matches in (
        [run for run in runs if run.id == text or f"{run.name}/{run.id}" == text],
        newest([run for run in runs if run.name == text]),
        [run for run in runs if len(text) >= 4 and run.id.endswith(text)],
    ):
        if len(matches) == 1:
            return begun(matches[0])
        if matches:
            raise RunError("run", f"{text}: {len(matches)} runs have this id", "name one by its folder")
    known = ", ".join(f"{run.name}/{run.id}" for run in runs[-3:]) or f"none under {Path(storage).absolute()}"
    raise RunError("run", f"{text}: no such run", f"newest runs: {known}")


def newest(runs: list[Run]) -> list[Run]:
    """The last of `runs` that has begun, or else the last of all; none of none."""
    return ([run for run in runs if (run.path / "provenance.json").exists()] or runs)[-1:]


def begun(run: Run) -> Run:
    """The run. Raises RunError if its launch was ended before it had written down what it was about to run."""
    if not (run.path / "provenance.json").exists():
        raise RunError("run", f"{run}: its launch ended before the run had begun", "launch the recipe as a new run")
    return run


def final_values(result: dict[str, Any]) -> dict[str, float]:
    """The final metrics of a result as numbers."""
    return {key: number(value) for key, value in (result.get("final") or {}).items()}
