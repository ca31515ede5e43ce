"""Workers that are computed one after the other end where processes end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raycipe.framework.comm import Comm
from raycipe.framework.training.plan import TrainPlan
from raycipe.framework.training.session import train
from raycipe.framework.training.simulated import run_simulated, simulates

MODEL = {"type": "net", "norm": False}  # BatchNorm statistics stay private to a rank; dropout draws random numbers
EF_SGD = {"type": "ef_sgd", "lr": 0.05, "compressor": {"type": "topk", "ratio": 0.1}}
ISLANDS = {"type": "diloco", "H": 5, "inner": {"type": "adamw", "lr": 0.01}, "compressor": {"type": "qsgd"}}


def simulated(recipe: Any, folder: Path, resume: bool = False, hooks: Any = ()) -> dict[str, float]:
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)

    def work(comm: Comm) -> dict[str, float]:
        return train(TrainPlan(recipe, str(folder), resume), comm, hooks=hooks).final

    return run_simulated(recipe, work)


@pytest.mark.parametrize("optimizer", [EF_SGD, ISLANDS, {"type": "sgd", "lr": 0.1}], ids=lambda one: one["type"])
def test_simulated_workers_give_the_numbers_of_processes(
    optimizer: dict[str, Any], toy: Any, fit: Any, world: Any, tmp_path: Path
) -> None:
    recipe = toy(optimizer=optimizer, model=MODEL, train_epochs=2)
    (tmp_path / "processes" / "checkpoints").mkdir(parents=True)
    wanted = world(2, lambda rank: fit(recipe, tmp_path / "processes").final).gather()[0]
    recipe["resources"] = {"num_workers": 0, "simulated_workers": 2}
    assert simulates(recipe)
    assert simulated(recipe, tmp_path / "simulated") == wanted


def test_a_broken_simulated_run_ends_at_the_unbroken_result(toy: Any, tmp_path: Path) -> None:
    recipe = toy(optimizer=ISLANDS, model=MODEL, resources={"num_workers": 0, "simulated_workers": 3}, train_epochs=2)
    recipe["train"]["batch_size"] = 30
    wanted = simulated(recipe, tmp_path / "unbroken")

    def stop(session: Any, event: str) -> None:
        session.watch.requested = session.step >= 8

    first = simulated(recipe, tmp_path / "broken", hooks=[stop])
    assert first != wanted
    assert simulated(recipe, tmp_path / "broken", True) == wanted


def test_the_failure_of_one_rank_is_the_runs(toy: Any, tmp_path: Path) -> None:
    recipe = toy(resources={"num_workers": 0, "simulated_workers": 2})

    def fail(comm: Comm) -> None:
        if comm.rank == 1:
            raise ValueError("rank 1 has no disk")
        comm.barrier()

    with pytest.raises(ValueError, match="rank 1 has no disk"):
        run_simulated(recipe, fail)
