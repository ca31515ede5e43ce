"""Twins: their run is the recipe's own, they differ by what one example does, and the figures are as defined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.components.measures._side_by_side import flat, simulate
from raycipe.components.measures.model_stability import compared, distance_of_twins
from raycipe.framework.comm import Comm, LocalComm
from raycipe.framework.contracts import Skipped, Trained
from raycipe.framework.registry import make
from raycipe.framework.training.after import final_model, trained
from raycipe.framework.training.plan import TrainPlan
from raycipe.framework.training.session import train
from raycipe.framework.training.simulated import run_simulated

DATA = {"type": "synthetic_logistic", "examples": 40, "test": 30, "features": 6}
TOPK = {"type": "topk", "ratio": 0.2, "scope": "global"}
EF_SGD = {"type": "ef_sgd", "lr": 0.5, "momentum": 0.5, "compressor": TOPK}
ISLANDS = {"type": "diloco", "H": 4, "inner": {"type": "adam", "lr": 0.05}, "compressor": {"type": "qsgd"}}


def recipe_of(optimizer: Any, **sections: Any) -> dict[str, Any]:
    recipe: dict[str, Any] = {
        "seed": 4,
        "data": DATA,
        "model": {"type": "linear"},
        "task": {"type": "classification"},
        "optimizer": optimizer,
        "train": {"steps": 24, "batch_size": 2},
        "resources": {"num_workers": 0},
    }
    return {**recipe, **sections}


def run(recipe: Any, folder: Path) -> Trained:
    """The recipe's training; what a measure is given at its end."""
    (folder / "checkpoints").mkdir(parents=True)
    found: list[Trained] = []

    def keep(session: Any) -> None:
        model = final_model(session)
        if session.comm.rank == 0:
            found.append(trained(session, model))

    def work(comm: Comm) -> None:
        train(TrainPlan(recipe, str(folder)), comm, after=keep)

    if recipe["resources"].get("simulated_workers"):
        run_simulated(recipe, work)
    else:
        work(LocalComm())
    return found[0]


@pytest.mark.parametrize(
    "optimizer",
    [
        EF_SGD,
        {**EF_SGD, "compressor": {"type": "lazy", "inner": {"type": "randk", "ratio": 0.25}}, "average": "uniform"},
        {"type": "sgd", "lr": 0.3, "schedule": {"type": "cosine"}},
        {"type": "local_sgd", "H": 5},
    ],
    ids=lambda one: one["type"],
)
def test_the_run_beside_its_twins_is_the_recipes_own(optimizer: dict[str, Any], tmp_path: Path) -> None:
    there = run(recipe_of(optimizer), tmp_path)
    paths = simulate(there, seeds=2, twins=3, points=3)
    assert there.model is not None and paths.steps[-1] == 24
    torch.testing.assert_close(paths.weights[-1][0, 0], flat(there.model), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(paths.weights[-1][0, 0], paths.weights[-1][1, 0])


def test_simulated_workers_are_those_of_the_run(tmp_path: Path) -> None:
    recipe = recipe_of(ISLANDS, resources={"num_workers": 0, "simulated_workers": 2})
    there = run(recipe, tmp_path)
    assert there.model is not None
    paths = simulate(there, seeds=1, twins=2, points=1)
    torch.testing.assert_close(paths.weights[-1][0, 0], flat(there.model), rtol=1e-4, atol=1e-5)


def test_twins_part_where_their_example_is_first_seen(tmp_path: Path) -> None:
    recipe = recipe_of({"type": "sgd", "lr": 0.1}, train={"epochs": 1, "batch_size": 1}, data={**DATA, "test": 40})
    there = run(recipe, tmp_path)
    paths = simulate(there, seeds=1, twins=40, points=24)
    moved = torch.stack([(weights[0, 1:] != weights[0, :1]).any(1).sum() for weights in paths.weights])
    assert moved.tolist() == paths.steps  # one more with every example, since all 40 are replaced


def test_without_compression_nothing_is_added(tmp_path: Path) -> None:
    plain = {**EF_SGD, "compressor": {"type": "identity"}}
    found = make("measures/model_stability", twins=3, seeds=2, points=3).measure(run(recipe_of(plain), tmp_path))
    assert found.values["extra"] == 0 and found.values["gap_deviation"] == 0 and found.values["stability"] > 0
    assert found.values["buffer_energy"] == 0


def test_compression_leaves_something_in_the_buffers(tmp_path: Path) -> None:
    found = make("measures/model_stability", twins=3, seeds=2, points=3).measure(run(recipe_of(EF_SGD), tmp_path))
    assert found.values["buffer_energy"] > 0 and found.values["extra"] != 0
    assert [row["step"] for row in found.tables["curve"]] == [1, 5, 24]


def test_figures_by_hand() -> None:
    weights = torch.tensor([[[0.0, 0], [1, 0], [0, 3]], [[1, 1], [1, 1], [1, 1]]])
    assert distance_of_twins(weights).tolist() == [5.0, 0.0]
    rows = [
        {"stability": 1.0, "uncompressed_stability": 0.5, "gap": 0.3, "uncompressed_gap": 0.1},
        {"stability": 3.0, "uncompressed_stability": 2.0, "gap": 0.5, "uncompressed_gap": 0.4},
    ]
    found = compared(rows)
    assert found["extra"] == 1 and found["relative"] == 0.5 and found["gap_deviation"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train": {"steps": 2, "batch_size": 2, "clip_norm": 1.0}}, "train.clip_norm"),
        ({"optimizer": {**EF_SGD, "compressor": {"type": "powersgd", "rank": 1, "min_numel": 1}}}, "powersgd"),
        ({"data": {**DATA, "test": 2}}, "3 twins need"),
    ],
    ids=["clip", "powersgd", "twins"],
)
def test_what_can_not_be_simulated_is_told(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    there = run(recipe_of(**{"optimizer": EF_SGD, **changes}), tmp_path)
    with pytest.raises(Skipped, match=words):
        make("measures/model_stability", twins=3, seeds=1).measure(there)
