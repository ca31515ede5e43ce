"""Exactly one class per example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.tasks._checks import fits, require_dtype, require_finite, require_range, tensors
from raycipe.framework.arguments import Fraction, FromData, Range
from raycipe.framework.contracts import Batch, Loss, Split, Task
from raycipe.framework.registry import register


@register
class Classification(Task):
    """Classification with the cross-entropy (or squares); reports loss (nats) and accuracy.

    cross_entropy: loss = -(1/n) sum_i sum_k q_ik log softmax(f(x_i))_k, with q_ik = (1 - s) [k = y_i] + s / K for
    smoothing s. squared: loss = (1/n) sum_i sum_k (f(x_i)_k - q_ik)² / 2. The model gives (batch, K) logits, y is
    (batch,) int64.

    Args:
        num_classes: K; the data knows it
        label_smoothing: s, the share of each target that is spread over all classes; the reported loss contains it
        loss: what is minimized; squares on unit vectors are what much theory of training is about
        metrics: further figures of an evaluation, macro-averaged over the classes and exact over all workers

    Reference:
        C. Szegedy et al., Rethinking the Inception Architecture, CVPR 2016 (label smoothing).

    Recipe:
        data: digits
        model: mlp
        task: {type: classification, label_smoothing: 0.1, metrics: [f1]}
        optimizer: {type: sgd, lr: 0.1}
    """

    reports: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "f1", "precision", "recall", "auroc")

    def __init__(
        self,
        num_classes: Annotated[int, Range(ge=2, le=10**6), FromData("num_classes")],
        label_smoothing: Fraction = 0.0,
        metrics: list[Literal["f1", "precision", "recall", "auroc"]] = [],  # noqa: B006 (never changed)
        loss: Literal["cross_entropy", "squared"] = "cross_entropy",
    ) -> None:
        self.num_classes = num_classes
        self.label_smoothing = label_smoothing
        self.metric_names = metrics
        self.loss_name = loss

    def reported(self) -> tuple[str, ...]:
        return ("loss", "accuracy", *self.metric_names)

    def check_outputs(self, outputs: Any, batch: Batch) -> str | None:
        shape = (len(batch["y"]), self.num_classes)
        return None if fits(outputs, shape) else f"{shape} floating: one logit a class"

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        logits = model(batch["x"])  # (batch, K)
        if self.loss_name == "squared":
            return Loss(squared(logits, batch["y"], self.label_smoothing), logits)
        return Loss(F.cross_entropy(logits, batch["y"], label_smoothing=self.label_smoothing), logits)

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": (outputs.detach().argmax(dim=1) == batch["y"]).sum()}

    def metrics(self) -> dict[str, Any]:
        if not self.metric_names:
            return {}
        from torchmetrics import classification as library

        classes = {
            "f1": library.MulticlassF1Score,
            "precision": library.MulticlassPrecision,
            "recall": library.MulticlassRecall,
            "auroc": library.MulticlassAUROC,
        }
        return {
            name: classes[name](num_classes=self.num_classes, average="macro", sync_on_compute=False)
            for name in self.metric_names
        }

    def update(self, metrics: Mapping[str, Any], outputs: Any, batch: Batch) -> None:
        for metric in metrics.values():
            metric.update(outputs.detach().float(), batch["y"])

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        for name, values in tensors(splits):
            hint = "classification takes class numbers: for measured targets choose `task: regression`"
            require_dtype(name, "y", values["y"], (torch.int64,), hint)
            require_range(name, "label", values["y"], self.num_classes, f"the model has {self.num_classes} outputs")
            require_finite(name, "x", values["x"])


def squared(outputs: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Half the squared distance of outputs (n, K) from the smoothed unit vectors of labels (n,), its mean over n."""
    classes = outputs.shape[1]
    targets = F.one_hot(labels, classes).to(outputs.dtype) * (1 - smoothing) + smoothing / classes
    return (outputs - targets).square().sum(dim=1).mean() / 2
