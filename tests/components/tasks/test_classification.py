"""Classification: loss, scores, metrics, and what is said of unusable labels."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from raycipe.framework.contracts import TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

LOGITS = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 3.0, 0.0]])
BATCH = {"x": LOGITS, "y": torch.tensor([0, 1, 2])}


def test_loss_is_the_mean_negative_log_probability_and_accuracy_counts() -> None:
    task = make("tasks/classification", num_classes=3)
    loss = task.loss(nn.Identity(), BATCH)
    chosen = LOGITS.softmax(1)[range(3), BATCH["y"]]
    torch.testing.assert_close(loss.value, -chosen.log().mean())
    assert loss.weight is None
    assert task.scores(loss.outputs, BATCH)["accuracy"].item() == 2


def test_label_smoothing_spreads_its_share_over_all_classes() -> None:
    loss = make("tasks/classification", num_classes=3, label_smoothing=0.3).loss(nn.Identity(), BATCH)
    target = torch.full((3, 3), 0.1)
    target[range(3), BATCH["y"]] += 0.7
    torch.testing.assert_close(loss.value, -(target * LOGITS.log_softmax(1)).sum(1).mean())


def test_metrics_are_macro_averages() -> None:
    task = make("tasks/classification", num_classes=3, metrics=["f1", "precision", "recall", "auroc"])
    metrics = task.metrics()
    task.update(metrics, LOGITS, BATCH)
    values = {name: float(metric.compute()) for name, metric in metrics.items()}
    assert all(not metric.sync_on_compute for metric in metrics.values())
    assert values["recall"] == pytest.approx(2 / 3) and values["precision"] == pytest.approx(0.5)
    assert values["f1"] == pytest.approx((1 + 2 / 3 + 0) / 3) and 0 <= values["auroc"] <= 1
    assert make("tasks/classification", num_classes=3).metrics() == {}


def test_squared_loss_is_half_the_distance_from_unit_vectors() -> None:
    task = make("tasks/classification", num_classes=3, loss="squared", label_smoothing=0.3)
    wanted = (LOGITS - torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])).square().sum() / 6
    assert float(task.loss(nn.Identity(), BATCH).value) == pytest.approx(float(wanted))


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (torch.ones(3, 2), torch.tensor([0, 1, 3]), "val: example 2 has label 3, outside 0 .. 2"),
        (torch.ones(3, 2), torch.tensor([0, -1, 2]), "val: example 1 has label -1, outside 0 .. 2"),
        (torch.ones(3, 2), torch.tensor([0.0, 1.0, 2.0]), "val: y must be int64, not float32"),
        (torch.tensor([[0.0], [1.0], [float("nan")]]), torch.tensor([0, 1, 2]), "val: example 2: x holds nan"),
    ],
)
def test_unusable_examples_are_named(x: torch.Tensor, y: torch.Tensor, words: str) -> None:
    task = make("tasks/classification", num_classes=3)
    good = TensorSplit({"x": torch.ones(3, 2), "y": torch.tensor([0, 1, 2])})
    task.check({}, {"train": good})
    with pytest.raises(RunError) as caught:
        task.check({}, {"train": good, "val": TensorSplit({"x": x, "y": y})})
    assert words in str(caught.value) and caught.value.kind == "data"


def test_examples_without_labels_are_told() -> None:
    with pytest.raises(RunError, match="train: the examples have no `y`"):
        make("tasks/classification", num_classes=3).check({}, {"train": TensorSplit({"x": torch.ones(3, 2)})})
