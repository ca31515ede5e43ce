"""Some steps of an optimizer on a fixed problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from raycipe.framework.comm import Comm
from raycipe.framework.training.plan import Summary, TrainPlan
from raycipe.framework.training.session import train as train_loop


@pytest.fixture
def after_steps() -> Callable[[Callable[[Any], torch.optim.Optimizer]], list[torch.Tensor]]:
    """`after_steps(make)`: the weights of a small float64 regression after five steps."""

    def run(make: Callable[[Any], torch.optim.Optimizer]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Linear(4, 3).double()
        optimizer = make(model.parameters())
        x, y = torch.randn(8, 4).double(), torch.randn(8, 3).double()
        for _ in range(5):
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
        return list(model.parameters())

    return run


GAME: dict[str, Any] = {
    "seed": 0,
    "data": {"type": "player_noise", "dim": 1, "scale": 0.0, "examples": 100},
    "model": {"type": "point", "start": 1.0},
    "task": {"type": "bilinear"},
}
RANKING: dict[str, Any] = {
    "seed": 0,
    "data": {"type": "gauss_auc", "examples": 64, "test": 40, "dim": 5},
    "model": {"type": "linear", "num_outputs": 1, "bias": False, "zero_init": True},
    "task": {"type": "auc_saddle"},
}


@dataclass
class Played:
    """A finished run: its summary, the last iterate, and every iterate as (step, w, v)."""

    summary: Summary
    w: torch.Tensor
    v: torch.Tensor
    path: list[torch.Tensor]
    bytes_sent: int
    folder: Path


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Played]:
    """`play({"type": "sgda", "lr": 0.1}, steps=100)` trains on a game (or on `recipe`) and looks at the iterates.

    `comm` is that of a rank of a simulated world; `until` stops the run there, to be resumed with `resume=True`.
    """
    count = [0]

    def run(
        optimizer: Mapping[str, Any],
        recipe: Mapping[str, Any] = GAME,
        comm: Comm | None = None,
        folder: Path | None = None,
        resume: bool = False,
        hooks: Sequence[Any] = (),
        **train_section: Any,
    ) -> Played:
        count[0] += 1
        folder = folder or tmp_path / f"run{count[0]}"
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        settings = {"batch_size": 1, "log_every": 1, **train_section}
        if "steps" not in settings:
            settings["epochs"] = 1
        whole = {**recipe, "optimizer": dict(optimizer), "train": settings}
        seen: dict[str, Any] = {"path": []}

        def look(session: Any, event: str) -> None:
            if event in ("start", "log"):
                seen["path"].append(torch.cat(session.optimizer.problem.point()))
            if event == "end":
                seen["point"] = session.optimizer.problem.point()
                seen["bytes"] = session.optimizer_comm.bytes_sent

        summary = train_loop(TrainPlan(whole, str(folder), resume), comm, hooks=[look, *hooks])
        return Played(summary, *seen["point"], seen["path"], seen["bytes"], folder)

    return run
