"""zo_sgda: short for sgda from values; what several workers share and send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.framework.comm import Comm, SimulatedWorld

STEPS, K = 12, 6


def ranking(dim: int) -> dict[str, Any]:
    return {
        "seed": 0,
        "data": {"type": "gauss_auc", "examples": 64, "test": 40, "dim": dim},
        "model": {"type": "linear", "num_outputs": 1, "bias": False, "zero_init": True},
        "task": {"type": "auc_saddle"},
    }


def test_all_coordinates_on_a_quadratic_are_the_exact_gradient(play: Any) -> None:
    zo = play({"type": "zo_sgda", "lr": 0.05, "points": 7, "direction": "coordinate", "mu": 0.1}, ranking(5), steps=30)
    exact = play({"type": "sgda", "lr": 0.05}, ranking(5), steps=30)
    torch.testing.assert_close(zo.w, exact.w, rtol=1e-9, atol=1e-9)
    assert zo.summary.final["train/function_evals"] == 30 * (2 * 7 + 2 * 1)


@pytest.mark.parametrize("split", ["directions", "data"])
@pytest.mark.parametrize("scheme", ["central", "forward"])
def test_two_workers_agree_with_one_and_send_k_numbers_a_player(
    split: str, scheme: str, play: Any, tmp_path: Path
) -> None:
    optimizer = {"type": "zo_sgda", "lr": 0.02, "points": K, "split": split, "scheme": scheme}
    sent = []
    for dim in (5, 40):
        alone = play(optimizer, ranking(dim), batch_size=4, steps=STEPS)
        folder = tmp_path / f"world{dim}"

        def work(comm: Comm, dim: int = dim, folder: Path = folder) -> Any:
            return play(optimizer, ranking(dim), comm=comm, folder=folder, batch_size=4, steps=STEPS)

        both = SimulatedWorld(2).run(work)
        for run in both:
            torch.testing.assert_close(run.w, alone.w, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(run.v, alone.v, rtol=1e-12, atol=1e-12)
        sent.append(both[0].bytes_sent)
    base = 8 if split == "data" and scheme == "forward" else 0  # f(w, v) itself
    assert sent == [STEPS * (2 * 8 * K + base)] * 2  # whatever the dimension


def test_three_workers_share_four_directions(play: Any, tmp_path: Path) -> None:
    optimizer = {"type": "zo_sgda", "lr": 0.02, "points": 4}
    alone = play(optimizer, ranking(5), batch_size=4, steps=STEPS)
    world = SimulatedWorld(3)
    for run in world.run(lambda comm: play(optimizer, ranking(5), comm, tmp_path / "world", batch_size=4, steps=STEPS)):
        torch.testing.assert_close(run.w, alone.w, rtol=1e-12, atol=1e-12)
