"""Neural collapse on features that are known, and the task that steers it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raycipe.components.measures.neural_collapse import collapse
from raycipe.components.tasks.collapse_control import soft_nc1
from raycipe.framework.contracts import Skipped
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def simplex(k: int) -> Tensor:
    """The vertices of an equiangular tight frame, of norm 1: (k, k)."""
    return (torch.eye(k, dtype=torch.float64) - 1 / k) * (k / (k - 1)) ** 0.5


def test_a_collapsed_classifier_has_all_signs_zero() -> None:
    means = simplex(4)
    labels = torch.arange(20) % 4
    found = collapse(means[labels], labels, labels, 3.0 * means)
    assert found.pop("rank") == 3
    assert all(abs(value) < 1e-12 for value in found.values()), found


def test_isotropic_noise_has_a_closed_form() -> None:
    k, s = 4, 0.3
    labels = torch.arange(4 * 8) // 8
    noise = s * torch.cat([torch.eye(k), -torch.eye(k)]).double() * k**0.5  # covariance s² I in each class
    features = simplex(k)[labels] + noise.repeat(4, 1)
    found = collapse(features, labels, (labels + 1) % 4, None)
    between = simplex(k).T @ simplex(k) / k
    assert found["nc1"] == pytest.approx(s**2 * float(torch.trace(torch.linalg.pinv(between))) / k, rel=1e-9)
    assert found["soft_nc1"] == pytest.approx(s**2 * k / float(torch.trace(between)), rel=1e-9)
    assert found["nc2_norm"] < 1e-12 and "nc3" not in found and found["nc4"] > 0.7


def test_classes_of_unequal_size_have_equal_means() -> None:
    labels = torch.tensor([0] * 9 + [1] * 2 + [2])
    found = collapse(simplex(3)[labels], labels, labels, None)
    assert found["nc2_norm"] < 1e-12 and found["nc2_angle"] < 1e-12
    with pytest.raises(Skipped, match="at least two classes"):
        collapse(simplex(3)[labels * 0], labels * 0, labels * 0, None)


def test_the_measure_reads_features_and_head_of_a_model(trained: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 3))
    x, y = torch.randn(30, 3), torch.arange(30) % 3
    found = make("measures/neural_collapse", split="test").measure(trained(model, x, y)).values
    with torch.no_grad():
        features, outputs = model[1](model[0](x)).double(), model(x)
    wanted = collapse(features, y, outputs.argmax(dim=1), model[2].weight.detach())
    assert found == pytest.approx(wanted, rel=1e-6)


def test_the_penalty_is_in_the_loss_of_training_alone() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))
    batch = {"x": torch.randn(12, 3), "y": torch.arange(12) % 3}
    plain = make("tasks/classification", num_classes=3).loss(model, batch).value
    spread = soft_nc1(model[:2](batch["x"]), batch["y"])
    assert spread is not None
    for mode, wanted in (("promote", plain + 0.3 * spread), ("suppress", plain + 10 * (30 - spread).clamp(min=0) ** 2)):
        task = make("tasks/collapse_control", {"num_classes": 3}, mode=mode, target=30.0)
        torch.testing.assert_close(task.loss(model.train(), batch).value, wanted)
        torch.testing.assert_close(task.loss(model.eval(), batch).value, plain)
    alone = {"x": batch["x"][:3], "y": batch["y"][:3]}
    torch.testing.assert_close(
        task.loss(model.train(), alone).value, make("tasks/classification", num_classes=3).loss(model, alone).value
    )
    with pytest.raises(RunError, match="the model has no layer `hidden`"):
        make("tasks/collapse_control", {"num_classes": 3}, mode="promote", layer="hidden").loss(model.train(), batch)


def test_soft_nc1_is_the_ratio_of_traces() -> None:
    labels = torch.arange(40) % 4
    features = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = collapse(features, labels, labels, None)["soft_nc1"]
    assert float(soft_nc1(features, labels)) == pytest.approx(wanted)  # type: ignore[arg-type]
