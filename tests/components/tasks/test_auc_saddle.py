"""auc_saddle: the identity with the loss over pairs, the population's optimum, classes that are missing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.components.tasks.auc_saddle import auc_values
from raycipe.framework.contracts import TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def test_best_a_b_c_give_the_square_loss_over_all_pairs() -> None:
    generator = torch.Generator().manual_seed(0)
    s = torch.randn(500, dtype=torch.float64, generator=generator)
    positive = (torch.rand(500, generator=generator) < 0.3).double()
    p = positive.mean()
    a, b = (s * positive).sum() / positive.sum(), (s * (1 - positive)).sum() / (1 - positive).sum()
    pairs = s[positive == 1].unsqueeze(1) - s[positive == 0].unsqueeze(0)
    wanted = p * (1 - p) * ((1 - pairs).square().mean() - 1)
    assert float(auc_values(s, positive, a, b, b - a, p).mean() - wanted) == pytest.approx(0, abs=1e-10)
    for shift in (-0.1, 0.1):  # a and b minimize, c maximizes
        assert float(auc_values(s, positive, a + shift, b, b - a, p).mean()) > wanted
        assert float(auc_values(s, positive, a, b + shift, b - a, p).mean()) > wanted
        assert float(auc_values(s, positive, a, b, b - a + shift, p).mean()) < wanted


def test_optimum_of_the_population_has_the_known_weights_and_risk() -> None:
    data = make("data/gauss_auc", examples=20, test=20)
    splits = data.load(0)
    task = make("tasks/auc_saddle")
    model = make("models/linear", facts=data.facts, num_outputs=1, bias=False, zero_init=True)
    saddle = task.trained(model, splits)
    start, best = task.population(saddle, data.facts)
    assert start - best == pytest.approx(0.749475, abs=1e-6)
    mean, variances = (torch.from_numpy(part) for part in data.moments())
    weights = torch.linalg.solve(4 * torch.diag(variances) + 8 * torch.outer(mean, mean), 4 * mean)
    assert float(weights.norm()) == pytest.approx(2.281130, abs=1e-6)
    with torch.no_grad():
        saddle.model.layer.weight.copy_(weights)
        saddle.min["a"].fill_(float(weights @ mean))
        saddle.min["b"].fill_(-float(weights @ mean))
    assert task.population(saddle, data.facts)[0] == pytest.approx(best, abs=1e-12)


def test_population_equals_the_mean_over_many_examples() -> None:
    data = make("data/gauss_auc", examples=200_000, test=20, dim=4)
    splits = data.load(1)
    task = make("tasks/auc_saddle", p=0.3)
    saddle = task.trained(make("models/linear", facts=data.facts, num_outputs=1, bias=False), splits)
    batch = {**splits["train"].tensors, "id": torch.arange(200_000)}
    with torch.no_grad():
        saddle.max["c"].copy_(task.best_response(saddle, batch)[0])
        primal = float(task.evaluate(saddle, batch)[0].mean()) / (0.3 * 0.7)
    assert primal == pytest.approx(task.population(saddle, data.facts)[0], abs=0.02)  # five standard errors


def test_share_of_positives_comes_from_the_training_split_and_reports_auc(game: Any) -> None:
    found = game("auc_saddle", {})
    assert float(found.saddle.p) == pytest.approx(14 / 40)
    metrics = found.task.metrics()
    found.task.update(metrics, torch.tensor([0.1, 40.0, 41.0, 3.0]), {"y": torch.tensor([0, 1, 0, 0])})
    assert float(metrics["auc"].compute()) == pytest.approx(2 / 3)


def test_a_missing_class_and_many_classes_are_refused() -> None:
    task = make("tasks/auc_saddle")
    with pytest.raises(RunError, match="AUC needs both classes: no example of `test` is a positive one"):
        one_class = TensorSplit({"x": torch.ones(3, 2), "y": torch.zeros(3, dtype=torch.int64)})
        task.check({"num_classes": 2}, {"test": one_class})
    digits = TensorSplit({"x": torch.ones(3, 2), "y": torch.arange(3)})
    with pytest.raises(RunError, match="AUC takes two classes, and the data have 3") as caught:
        task.check({"num_classes": 3}, {"train": digits})
    assert "task.positive: [1, 3]" in str(caught.value)
    make("tasks/auc_saddle", positive=[1]).check({"num_classes": 3}, {"train": digits})


def test_a_model_of_two_outputs_is_told_what_to_change() -> None:
    task = make("tasks/auc_saddle")
    batch = {"y": torch.zeros(3)}
    assert task.check_outputs(torch.ones(3, 1), batch) is None
    assert "set model.num_outputs: 1" in (task.check_outputs(torch.ones(3, 2), batch) or "")
