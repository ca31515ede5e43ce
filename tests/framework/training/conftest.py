"""Toy components, and worlds of forked processes over gloo on the loopback device."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.framework import plugins
from raycipe.framework.comm import LocalComm, TorchComm
from raycipe.framework.training.plan import Summary, TrainPlan
from raycipe.framework.training.session import Session, train

os.environ["GLOO_SOCKET_IFNAME"] = "lo"
TOYS = plugins.add_folder(str(Path(__file__).parent / "training_toys"))
plugins._added.remove(TOYS)  # other folders' tests must not see the toys
torch.set_num_threads(1)

TRAIN = {"epochs": 5, "batch_size": 20, "log_every": 10, "checkpoint_every": 1}


def make_toy(**changes: Any) -> dict[str, Any]:
    """The toy recipe: 75 steps with dropout, BatchNorm, AdamW, a schedule and an average of the weights.

    `train_x=1` sets `train.x`; other words replace whole sections.
    """
    recipe: dict[str, Any] = {
        "recipe": 1,
        "name": "toy",
        "seed": 3,
        "data": {"type": "blobs"},
        "model": {"type": "net"},
        "task": {"type": "classification"},
        "optimizer": {"type": "adamw", "lr": 0.01, "schedule": {"type": "cosine"}},
        "train": {**TRAIN, "ema": 0.9},
        "resources": {"num_workers": 0},
    }
    for name, value in changes.items():
        if name.startswith("train_"):
            recipe["train"] = {**recipe["train"], name[6:]: value}
        else:
            recipe[name] = value
    if "steps" in recipe["train"]:
        recipe["train"].pop("epochs")
    return recipe


@pytest.fixture(scope="module", autouse=True)
def toys() -> Iterator[None]:
    """The toy components are there during the tests of this folder."""
    plugins._added.append(TOYS)
    yield
    plugins._added.remove(TOYS)


@pytest.fixture
def toy() -> Callable[..., dict[str, Any]]:
    return make_toy


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    return folder


def train_in(recipe: Mapping[str, Any], folder: Path, resume: bool = False, **given: Any) -> Summary:
    """Train in this process, as one rank of its world."""
    many = torch.distributed.is_initialized()
    return train(TrainPlan(recipe, str(folder), resume), TorchComm() if many else LocalComm(), **given)


@pytest.fixture
def fit() -> Callable[..., Summary]:
    return train_in


Work = Callable[[int], Any]


def _child(rank: int, world_size: int, meeting: str, work: Work, results: Any) -> None:
    torch.set_num_threads(1)
    try:
        if world_size > 1:
            torch.distributed.init_process_group(
                "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size
            )
        answer = (rank, work(rank), None)
    except BaseException as error:  # noqa: BLE001 - shown by the parent
        answer = (rank, None, (type(error).__name__, str(error), traceback.format_exc()))
    results.put(pickle.dumps(answer))  # bytes: tensors would travel as handles of a process that ends here
    results.close()
    results.join_thread()
    os._exit(0)  # no clean-up of what the parent owns


class World:
    """Processes forked from this one, in which everything is imported already."""

    def __init__(self, world_size: int, work: Work, folder: Path) -> None:
        context = multiprocessing.get_context("fork")
        self.world_size, self.results = world_size, context.Queue()
        folder.mkdir(parents=True, exist_ok=True)
        meeting = str(folder / f"meeting-{os.urandom(4).hex()}")
        arguments = (world_size, meeting, work, self.results)
        self.processes = [context.Process(target=_child, args=(rank, *arguments)) for rank in range(world_size)]
        for process in self.processes:
            process.start()

    def kill(self, rank: int) -> None:
        pid = self.processes[rank].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        for rank, process in enumerate(self.processes):
            if process.is_alive():
                self.kill(rank)
            process.join()

    def gather(self, timeout_s: float = 120) -> list[Any]:
        """Results in rank order; raises AssertionError with the first rank's traceback if one failed."""
        found = {rank: (value, error) for rank, value, error in (self._next(timeout_s) for _ in self.processes)}
        self.end()
        errors = [error for _, error in found.values() if error]
        assert not errors, "\n".join(error[2] for error in errors)
        return [found[rank][0] for rank in range(self.world_size)]

    def errors(self, timeout_s: float = 120) -> dict[int, tuple[str, str, str]]:
        """Rank -> (type, message, traceback) of those that failed."""
        found = [self._next(timeout_s) for _ in self.processes]
        self.end()
        return {rank: error for rank, _, error in found if error}

    def _next(self, timeout_s: float) -> Any:
        end = time.monotonic() + timeout_s
        while True:
            try:
                return pickle.loads(self.results.get(timeout=0.5))  # noqa: S301 - our own child's
            except queue.Empty:
                codes = [process.exitcode for process in self.processes]
                assert not any(codes), f"a process ended without an answer: {codes}"
                assert time.monotonic() < end, f"no answer within {timeout_s} s"


@pytest.fixture(scope="module")
def warmed(toys: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Everything that training imports on its way is imported before processes are forked."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "checkpoints").mkdir()
    train_in(make_toy(train_steps=2), folder)


@pytest.fixture
def world(warmed: None, tmp_path: Path) -> Iterator[Callable[..., World]]:
    """`world(2, work)` starts `work(rank)` in two processes; all are ended with the test."""
    started: list[World] = []

    def start(world_size: int, work: Work) -> World:
        started.append(World(world_size, work, tmp_path / "meetings"))
        return started[-1]

    yield start
    for each in started:
        each.end()


def state_of(session: Session) -> dict[str, Any]:
    """Everything that an unbroken and a resumed run must agree on, bit for bit."""
    from raycipe.framework.training.state import capture_rng, digest

    average = [] if session.average is None else list(session.average.model.state_dict().values())
    optimizer = [
        value
        for entries in session.optimizer.state_dict()["state"].values()
        for value in entries.values()
        if isinstance(value, torch.Tensor)
    ]
    return {
        "weights": digest(list(session.model.state_dict().values())),
        "average": digest(average),
        "optimizer": digest(optimizer),
        "rng": digest([capture_rng()["torch"], capture_rng()["numpy"][1]]),
        "best": session.judge.best,
    }


def finish(recipe: Mapping[str, Any], folder: Path, resume: bool = False) -> dict[str, Any]:
    """Train to the end; gives what two equal runs agree on."""
    last: list[Session] = []
    train_in(recipe, folder, resume, hooks=[lambda session, event: last.append(session)])
    return state_of(last[-1])


@pytest.fixture
def end_of() -> Callable[..., dict[str, Any]]:
    return finish
