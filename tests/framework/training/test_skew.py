"""Shards of labels: how they differ, that they are whole, and which worker reads which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from raycipe.framework.comm import Comm
from raycipe.framework.contracts import TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.training.order import share
from raycipe.framework.training.plan import TrainPlan
from raycipe.framework.training.session import train
from raycipe.framework.training.simulated import run_simulated
from raycipe.framework.training.skew import SkewedOrder, shards, skewed_order

LABELS = np.random.default_rng(0).integers(0, 5, 1003)


@pytest.mark.parametrize("skew", [0.0, 0.05, 1.0, 1000.0])
def test_shards_are_equally_large_and_share_no_example(skew: float) -> None:
    found = shards(LABELS, 4, skew, seed=1)
    assert found.shape == (4, 250) and len(found.unique()) == 1000
    assert torch.equal(found, shards(LABELS, 4, skew, seed=1))
    assert not torch.equal(found, shards(LABELS, 4, skew, seed=2))


def test_a_small_concentration_makes_workers_differ() -> None:
    def distance(skew: float) -> float:
        """Mean total variation between a worker's labels and those of all."""
        whole = np.bincount(LABELS, minlength=5) / len(LABELS)
        own = [np.bincount(LABELS[shard], minlength=5) / len(shard) for shard in shards(LABELS, 4, skew, 0).numpy()]
        return float(np.mean([np.abs(share_ - whole).sum() / 2 for share_ in own]))

    assert distance(0.0) > distance(0.3) > distance(10.0) > distance(1e4)
    assert distance(1e4) < 0.02 and distance(0.0) > 0.6


@pytest.mark.parametrize("drop_last", [True, False])
def test_each_worker_reads_its_own_shard_and_all_of_it(drop_last: bool) -> None:
    order = SkewedOrder(torch.from_numpy(LABELS), 4, 0.3, 40, 7, True, drop_last)
    steps = order.steps_per_epoch
    assert steps == (25 if drop_last or 1000 % 40 == 0 else 26)
    batches = [order.next() for _ in range(steps)]
    assert {epoch for epoch, _ in batches} == {0}
    for rank in range(4):
        seen = torch.cat([share(ids, rank, 4) for _, ids in batches])
        assert torch.equal(seen.sort().values, order.shards[rank].sort().values)
    assert not torch.equal(order.permutation(0), order.permutation(1))
    assert torch.equal(order.at(0, 40).next()[1], batches[1][1])


def test_a_short_last_batch_keeps_to_the_shards() -> None:
    order = SkewedOrder(torch.from_numpy(LABELS), 4, 0.0, 48, 7, True, False)
    ids = [order.next()[1] for _ in range(order.steps_per_epoch)]
    assert len(ids[-1]) == 1000 - 20 * 48
    for rank in range(4):
        assert set(share(ids[-1], rank, 4).tolist()) <= set(order.shards[rank].tolist())


def test_data_without_labels_are_refused() -> None:
    split = TensorSplit({"x": torch.zeros(4, 2), "y": torch.zeros(4, 1)})
    with pytest.raises(RunError, match="no class labels in memory"):
        skewed_order(split, 2, 0.3, 2, 0, True, True)


def test_a_run_reads_them_and_resumes(toy: Any, tmp_path: Path) -> None:
    recipe = toy(
        optimizer={"type": "diloco", "H": 5, "inner": {"type": "sgd", "lr": 0.1}},
        model={"type": "net", "norm": False},
        resources={"num_workers": 0, "simulated_workers": 2},
        train_label_skew=0.0,
    )
    recipe["train"]["epochs"] = 2
    seen: list[list[int]] = []

    def run(folder: Path, resume: bool = False, stop_at: int = 10**9) -> dict[str, float]:
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)

        def look(session: Any, event: str) -> None:
            if event == "log":
                seen.append(session.splits["train"].tensors["y"][session.current.ids].tolist())
            session.watch.requested = session.step >= stop_at

        def work(comm: Comm) -> dict[str, float]:
            hooks = [look] if comm.rank == 0 else []
            return train(TrainPlan(recipe, str(folder), resume), comm, hooks=hooks).final

        return run_simulated(recipe, work)

    wanted = run(tmp_path / "unbroken")
    assert all(len(set(labels)) < 3 for labels in seen)
    run(tmp_path / "broken", stop_at=8)
    assert run(tmp_path / "broken", True) == wanted
