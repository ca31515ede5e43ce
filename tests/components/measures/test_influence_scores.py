"""Scores against exact leave-one-out on a problem with a unique minimum, and against trainings on subsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from raycipe.components.measures._retraining import correlation, halves, without_one
from raycipe.components.measures.influence_scores import ranked, spread
from raycipe.framework.contracts import Skipped, TensorSplit, Trained
from raycipe.framework.registry import make
from raycipe.framework.training.again import train_again

DECAY = 0.02


def trained(count: int = 40) -> Trained:
    """Logistic regression on two overlapping blobs, trained by full-batch descent to its minimum."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(count + 10) % 2
    x = torch.randn(count + 10, 3, generator=generator) + 1.2 * y.unsqueeze(1)
    splits = {
        "train": TensorSplit({"x": x[:count], "y": y[:count]}),
        "test": TensorSplit({"x": x[count:], "y": y[count:]}),
    }
    facts = {"num_features": 3, "num_outputs": 2, "num_classes": 2, "input_shape": [3], "class_names": ["a", "b"]}
    recipe: dict[str, Any] = {
        "seed": 0,
        "model": {"type": "linear"},
        "task": {"type": "classification"},
        "optimizer": {"type": "sgd", "lr": 1.0, "momentum": 0.5, "weight_decay": DECAY},
        "train": {"steps": 150, "batch_size": count, "drop_last": False},
    }
    model = train_again(recipe, splits, facts)
    return Trained(
        recipe=recipe, splits=splits, facts=facts, model=model, task=make("tasks/classification", num_classes=2), seed=0
    )


SCORES: dict[str, Any] = {"ids": [0, 3, 6], "ihvp": "direct"}


def test_scores_are_the_inverse_hessian_between_gradients() -> None:
    given = trained()
    found = make("measures/influence_scores", **SCORES).measure(given)
    assert given.model is not None and given.task is not None
    parameters = list(given.model.parameters())
    loss = nn.functional.cross_entropy
    train, test = given.splits["train"].tensors, given.splits["test"].tensors  # type: ignore[attr-defined]

    def gradient(tensors: Any, i: int) -> torch.Tensor:
        value = loss(given.model(tensors["x"][i : i + 1]), tensors["y"][i : i + 1])  # type: ignore[misc]
        return torch.cat([g.flatten() for g in torch.autograd.grad(value, parameters)])

    def whole(flat: torch.Tensor) -> torch.Tensor:
        weight, bias = flat[:6].reshape(2, 3), flat[6:]
        return loss(train["x"] @ weight.T + bias, train["y"]) + DECAY / 2 * flat.square().sum()

    point = torch.cat([p.detach().flatten() for p in parameters])
    hessian = torch.autograd.functional.hessian(whole, point)
    wanted = gradient(test, 3) @ torch.linalg.solve(hessian, gradient(train, 5)) / 40
    row = next(row for row in found.tables["scores"] if row["query"] == "test 3" and row["id"] == 5)
    assert row["score"] == pytest.approx(float(wanted), rel=1e-3)
    assert found.values["relative_residual"] < 1e-4


def test_removal_does_what_the_scores_predict() -> None:
    given = trained(200)
    found = make("measures/influence_scores", validate="leave_one_out", trials=8, **SCORES).measure(given)
    assert found.values["loo_pearson"] > 0.99 and found.values["loo_spearman"] > 0.9
    rows = found.tables["trainings"]
    assert np.polyfit([r["predicted"] for r in rows], [r["actual"] for r in rows], 1)[0] == pytest.approx(1, abs=0.15)


def test_subsets_rank_as_the_sums_of_scores_predict() -> None:
    given = trained()
    found = make("measures/influence_scores", validate="lds", trials=10, fraction=0.7, **SCORES).measure(given)
    assert found.values["lds"] > 0.8 and found.values["lds_lowest"] <= found.values["lds"]
    other = make("measures/influence_scores", ids=[0, 3, 6], together=True).measure(given)
    assert {row["query"] for row in other.tables["helpful"]} == {"test 0 and others"}


def test_what_is_listed_is_ranked_and_ends_are_among_the_examples_that_are_tried() -> None:
    rows = ranked(torch.tensor([[0.1, 0.5, -0.2, 0.5]]), ["q"], [7, 8, 9, 7], 3)
    assert [row["id"] for row in rows] == [1, 3, 0] and rows[0] == {
        "query": "q", "rank": 1, "id": 1, "score": 0.5, "label": 8,
    }  # fmt: skip
    harmful = ranked(-torch.tensor([[0.1, 0.5, -0.25, 0.5]]), ["q"], [7, 8, 9, 7], 1, -1.0)
    assert harmful[0]["id"] == 2 and harmful[0]["score"] == -0.25
    assert spread(np.array([3.0, 1.0, 2.0, 5.0, 4.0]), 3) == [1, 0, 3]
    assert [part.tolist() for part in without_one(3, [1])] == [[0, 2]]
    parts = halves(10, 0.5, 4, 0)
    assert all(len(part) == 5 and part.tolist() == sorted(set(part.tolist())) for part in parts)
    assert correlation(np.array([1.0, 2, 30]), np.array([1.0, 4, 5]), True) == pytest.approx(1)
    assert correlation(np.ones(3), np.arange(3.0), False) == 0


def test_a_query_that_is_not_there_is_told() -> None:
    with pytest.raises(Skipped, match="no example 10 in `test`: the ids are 0 to 9"):
        make("measures/influence_scores", ids=[10]).measure(trained())
    with pytest.raises(Skipped, match="no `val` split"):
        make("measures/influence_scores", split="val").measure(trained())
