"""saddle_stability: runs side by side are the loop's own, twins part only where they see another example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from raycipe.components.measures._twins import simulate
from raycipe.framework.contracts import Skipped, Trained
from raycipe.framework.registry import build, make
from raycipe.framework.training.plan import TrainPlan
from raycipe.framework.training.session import train


def trained(optimizer: dict[str, Any], examples: int = 60, **train_section: Any) -> Trained:
    recipe: dict[str, Any] = {
        "seed": 0,
        "data": {"type": "gauss_auc", "examples": examples, "test": 30, "dim": 5},
        "model": {"type": "linear", "num_outputs": 1, "bias": False, "zero_init": True},
        "task": {"type": "auc_saddle"},
        "train": {"epochs": 1, "batch_size": 1, **train_section},
        "optimizer": optimizer,
    }
    data = build(recipe["data"], "data")
    splits = data.load(0)
    task = build(recipe["task"], "tasks")
    saddle = task.trained(build(recipe["model"], "models", facts=data.facts), splits)
    return Trained(recipe=recipe, splits=splits, facts=data.facts, model=saddle, task=task)


@pytest.mark.parametrize(
    "optimizer",
    [
        {"type": "sgda", "lr": 1.0, "schedule": "theory"},
        {"type": "extragradient", "lr": 0.1, "same_sample": False},
        {"type": "adaptive_saddle", "lr": 0.05, "average": "suffix0.5", "gradients": {"type": "clipped"}},
        {"type": "sgda", "lr": 0.1, "gradients": {"type": "clipped", "scope": "sample", "tau": 0.5}, "v_steps": 2},
        {"type": "sgda", "lr": 0.1, "gradients": {"type": "delayed", "delay": 2}, "order": "alternating"},
    ],
)
def test_the_first_run_side_by_side_is_the_run_of_the_loop(optimizer: dict[str, Any], tmp_path: Path) -> None:
    run = trained(optimizer, batch_size=3)
    paths = simulate(run, seeds=2, twins=2, points=3)
    found: dict[str, torch.Tensor] = {}

    def look(session: Any, event: str) -> None:
        if event == "end":
            found["last"] = torch.cat(session.optimizer.problem.point())
            with session.optimizer.consensus():
                found["mean"] = torch.cat(session.optimizer.problem.point())

    (tmp_path / "checkpoints").mkdir()
    train(TrainPlan(run.recipe, str(tmp_path)), hooks=[look])
    for name, points in (("last", paths.last), ("mean", paths.mean)):
        side = torch.cat([part[0, 0] for part in points[-1]])
        torch.testing.assert_close(side, found[name], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("gradients", [{"type": "exact"}, {"type": "zeroth_order", "points": 3}])
def test_twins_are_equal_until_they_see_their_own_example(gradients: dict[str, Any]) -> None:
    run = trained({"type": "sgda", "lr": 0.1, "gradients": gradients}, examples=40, steps=10)
    del run.recipe["train"]["epochs"]  # type: ignore[attr-defined]
    paths = simulate(run, seeds=3, twins=12, points=4)
    orders = [order.at(0, 0).permutation(0)[:10] for order in paths.problem.orders]
    seen = torch.stack([torch.isin(own, ids) for own, ids in zip(paths.problem.replaced, orders, strict=True)])
    apart = (paths.last[-1][0][:, 1:] - paths.last[-1][0][:, :1]).norm(dim=-1)
    assert bool((apart[~seen] == 0).all()) and bool((apart[seen] > 1e-4).all())
    assert 0 < int(seen.sum()) < seen.numel()


def test_the_value_is_the_mean_square_distance_of_twins() -> None:
    run = trained({"type": "sgda", "lr": 0.1})
    found = make("measures/saddle_stability", twins=4, seeds=3, points=5).measure(run)
    w, v = simulate(run, 3, 4, 5).last[-1]
    by_hand = [
        float((w[s, j] - w[s, 0]).square().sum() + (v[s, j] - v[s, 0]).square().sum())
        for s in range(3)
        for j in range(1, 5)
    ]
    assert found.values["stability"] == pytest.approx(sum(by_hand) / 12)
    parts = found.values["stability_w"] + found.values["stability_v"]
    assert parts == pytest.approx(found.values["stability"])
    assert [row["step"] for row in found.tables["curve"]][-1] == 60
    average = make("measures/saddle_stability", twins=4, seeds=3, points=5, target="avg").measure(run)
    assert average.values["stability"] < found.values["stability"]


def test_what_can_not_run_side_by_side_is_skipped_with_its_reason() -> None:
    measure = make("measures/saddle_stability", twins=3, seeds=2)
    with pytest.raises(Skipped, match="it needs a minimax task"):
        measure.measure(Trained(recipe={}, task=make("tasks/classification", num_classes=2)))
    with pytest.raises(Skipped, match="clip_norm"):
        measure.measure(trained({"type": "sgda"}, clip_norm=1.0))
    with pytest.raises(Skipped, match="40 twins need as many examples outside the training split"):
        make("measures/saddle_stability", twins=40).measure(trained({"type": "sgda"}))
