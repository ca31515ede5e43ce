"""Checkpoints: written beside, a manifest with hashes last, one rename as the commit.

    checkpoints/step-00000120/   model.safetensors  ema.safetensors  state.pt  rank0.pt ...  manifest.json

A rank that can't write never leaves the others waiting; a damaged checkpoint is set aside and the one before serves.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from raycipe.framework.comm import Comm
from raycipe.framework.errors import RunError
from raycipe.framework.files import sha256_file, to_json
from raycipe.framework.training.saved import FORMAT, Checkpoint, damage, read

NAME = re.compile(r"step-(\d{8,})\Z")
MAX_FAILURES = 3  # in a row; then the run fails
FULL_DISK = re.compile(r"os error 2[78]\b|No space left|File too large|unexpected pos|Disk quota")
Writer = Callable[[Path], None]


def safetensors_writer(tensors: Mapping[str, Tensor]) -> Writer:
    return lambda path: save_file(dict(tensors), path, metadata={"format": "pt"})


def pt_writer(value: Any) -> Writer:
    return lambda path: torch.save(value, path)


@dataclass
class Job:
    """One checkpoint on its way. `writers` are this rank's files; on rank 0 `about` goes into the manifest."""

    step: int
    writers: Mapping[str, Writer]
    about: Mapping[str, Any]
    keep: Iterable[int] = ()  # steps that must stay (the best)
    collective: Writer | None = None  # files that all ranks write together into the folder, before their own
    folder: Path | None = None
    files: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    thread: threading.Thread | None = None


class Store:
    """The checkpoints of one run. All ranks construct it and call it equally often.

    Args:
        folder: where they lie; every rank must see the same one.
        keep: how many of the newest stay.
        warn: told about damaged and failed checkpoints (rank 0).
        flush: brings the rows of metrics.jsonl to the disk before a commit.
    """

    def __init__(
        self,
        folder: str | Path,
        comm: Comm,
        keep: int = 2,
        warn: Callable[[str], None] = lambda text: None,
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder = Path(folder)
        self.comm, self.keep, self.warn, self.flush = comm, keep, warn, flush
        self.failures = 0
        self.job: Job | None = None
        self.committed: int | None = None

    def check_shared(self) -> None:
        """Raise RunError, on all ranks, unless every rank sees the folder that rank 0 writes to."""
        sign = self.folder / self.comm.broadcast_object(f".seen-{uuid.uuid4().hex}")
        if self.comm.rank == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            for left in self.folder.glob(".seen-*"):  # by a run that was killed just here
                left.unlink()
            sign.touch()
        self.comm.barrier()
        seen = self.comm.gather_objects((sign.exists(), socket.gethostname()))
        if self.comm.rank == 0:
            sign.unlink()
        blind = [f"worker {rank} on {host}" for rank, (sees, host) in enumerate(seen) if not sees]
        if blind:
            raise RunError(
                "storage",
                f"{', '.join(blind)} can't see {self.folder}",
                "give --storage a folder that all machines share",
            )

    # ------------------------------------------------------------------------------------------ writing

    def save(self, job: Job, wait: bool = True, final: bool = False) -> None:
        """Write a checkpoint; with `wait=False` a thread writes and `poll` commits later (at most one is in flight).

        Raises RunError if it fails the third time in a row, or at the end of the run.
        """
        self.poll(wait=True)
        self.job = job
        job.folder = self.folder / f".tmp-{job.step}"
        self.comm.barrier()
        if self.comm.rank == 0:
            job.error = _attempt(partial(self._prepare, job))
        self.comm.barrier()
        if job.collective is not None:
            job.error = job.error or _attempt(partial(job.collective, job.folder))
            self.comm.barrier()
        if wait:
            self._write(job)
        else:
            job.thread = threading.Thread(target=self._write, args=(job,))
            job.thread.start()
        if wait:
            self.poll(wait=True, final=final)

    def poll(self, wait: bool, final: bool = False) -> bool:
        """Commit the checkpoint in flight if all ranks have written (or wait for that); True if none is left."""
        job = self.job
        if job is None:
            return True
        if not wait:
            writing = job.thread is not None and job.thread.is_alive()
            if any(self.comm.gather_objects(writing)):
                return False
        if job.thread is not None:
            job.thread.join()
        self.job = None
        self._finish(job, final)
        return True

    def _prepare(self, job: Job) -> None:
        assert job.folder is not None
        self.folder.mkdir(exist_ok=True)  # not its parents: a run folder that is gone must not seem to be there
        for old in self.folder.glob(".tmp-*"):
            shutil.rmtree(old)
        job.folder.mkdir()

    def _write(self, job: Job) -> None:
        for name, writer in job.writers.items():
            job.error = job.error or _attempt(partial(self._write_file, job, name, writer))

    def _write_file(self, job: Job, name: str, writer: Writer) -> None:
        assert job.folder is not None
        path = job.folder / name
        writer(path)
        for file in [entry for entry in path.rglob("*") if entry.is_file()] if path.is_dir() else [path]:
            file.chmod(0o644)
            _fsync(file)
            entry = {"bytes": file.stat().st_size, "sha256": sha256_file(file)}
            job.files[str(file.relative_to(job.folder))] = entry

    def _finish(self, job: Job, final: bool) -> None:
        parts: list[tuple[dict[str, Any], str | None]] = self.comm.gather_objects((job.files, job.error))
        faults = [f"worker {rank}: {fault}" for rank, (_, fault) in enumerate(parts) if fault]
        if not faults:
            mine = None
            if self.comm.rank == 0:
                files = {name: entry for part, _ in parts for name, entry in part.items()}
                mine = _attempt(partial(self._commit, job, files))
            theirs = self.comm.broadcast_object(mine)
            faults = [f"worker 0: {theirs}"] if theirs else []
        if faults:
            self._failed(job, faults, final)
        else:
            self.failures, self.committed = 0, job.step

    def _commit(self, job: Job, files: Mapping[str, Any]) -> None:
        assert job.folder is not None
        self.flush()
        about = {"format": FORMAT, "step": job.step, "world_size": self.comm.world_size, **job.about, "files": files}
        manifest = job.folder / "manifest.json"
        manifest.write_text(to_json(about), encoding="utf-8")
        _fsync(manifest)
        _fsync(job.folder)
        target = self.folder / f"step-{job.step:08d}"
        if target.exists():  # the same step once more: a run resumed at its end
            _remove(target)
        job.folder.rename(target)
        _fsync(self.folder)
        self._retain({job.step, *job.keep})

    def _retain(self, keep: set[int]) -> None:
        newest = self.steps()[-self.keep :]
        for step in self.steps():
            if step not in keep and step not in newest:
                _remove(self.folder / f"step-{step:08d}")

    def _failed(self, job: Job, faults: list[str], final: bool) -> None:
        self.failures += 1
        if self.comm.rank == 0 and job.folder is not None:
            shutil.rmtree(job.folder, ignore_errors=True)
        text = f"checkpoint at step {job.step} could not be written: {'; '.join(faults)}"
        if final or self.failures >= MAX_FAILURES:
            last = f"the last good one is of step {self.committed}" if self.committed else "there is no earlier one"
            raise RunError("storage", text, f"{last}; {_free(self.folder)}", step=job.step)
        if self.comm.rank == 0:
            self.warn(f"{text} ({_free(self.folder)}); the run goes on")

    # ------------------------------------------------------------------------------------------ reading

    def steps(self) -> list[int]:
        """Steps of the committed checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        matches = [NAME.match(entry.name) for entry in self.folder.iterdir()]
        return sorted(int(match[1]) for match in matches if match)

    def newest(self) -> Checkpoint | None:
        """The newest good checkpoint, the same on all ranks; damaged ones are set aside with a warning.

        None if there was never one; RunError if what there was is damaged.
        """
        found: tuple[str | None, str | None] = (None, None)
        if self.comm.rank == 0:
            found = self._search()
        path, fault = self.comm.broadcast_object(found)
        if fault:
            raise nothing_left(self.folder.parent, fault)
        return read(Path(path)) if path else None

    def _search(self) -> tuple[str | None, str | None]:
        """(path of the newest good checkpoint, what is wrong if there is none). Without one nothing is renamed."""
        for rest in [*self.folder.glob(".tmp-*"), *self.folder.glob(".del-*")]:
            shutil.rmtree(rest)
        bad: dict[Path, str] = {}
        for step in reversed(self.steps()):
            path = self.folder / f"step-{step:08d}"
            fault = damage(path)
            if fault is None:
                self._fall_back(bad, path)
                self.committed = step
                return str(path), None
            bad[path] = fault
        faults = [f"{path.name}: {fault}" for path, fault in bad.items()]
        faults += [f"{path.name}: set aside before" for path in sorted(self.folder.glob("damaged-*"))]
        return None, f"{len(faults)} damaged: {'; '.join(faults)}" if faults else None

    def _fall_back(self, bad: Mapping[Path, str], good: Path) -> None:
        if bad:
            faults = "; ".join(f"{path.name} is damaged: {fault}" for path, fault in bad.items())
            self.warn(f"checkpoint {faults}; resuming from {good.name}")
        for path in bad:
            _set_aside(path)


def nothing_left(run_dir: Path, why: str) -> RunError:
    """A run that had checkpoints never starts again from step 0 by itself."""
    message = f"{run_dir}: no checkpoint is left to resume from ({why})"
    return RunError("storage", message, "launch it as a new run")


def _set_aside(path: Path) -> None:
    number = 0
    while True:
        aside = path.with_name(f"damaged-{path.name}" + (f".{number}" if number else ""))
        if not aside.exists():
            path.rename(aside)
            return
        number += 1


def _remove(path: Path) -> None:
    """Renamed first: a half-removed folder must not look like a checkpoint."""
    gone = path.with_name(f".del-{path.name}")
    shutil.rmtree(gone, ignore_errors=True)
    path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def _attempt(work: Callable[[], None]) -> str | None:
    """The error of `work` as text: every rank must learn of it, whatever it is."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - carried to all ranks and decided there
        text = str(error) or type(error).__name__
        return f"the storage is full ({text})" if FULL_DISK.search(text) else text
    return None


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _free(folder: Path) -> str:
    try:
        return f"free there: {shutil.disk_usage(folder).free / 1e6:.0f} MB"
    except OSError as error:
        return str(error)
