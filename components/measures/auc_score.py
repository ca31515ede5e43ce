"""The area under the ROC curve."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register


def auc(scores: Tensor, positive: Tensor) -> float:
    """Share of pairs of a positive and a negative example that are in order; ties count half. (Mann-Whitney)"""
    order = scores.double()
    ranks = torch.searchsorted(order.sort().values, order, right=False) + torch.searchsorted(
        order.sort().values, order, right=True
    )
    ups = int(positive.sum())
    downs = len(positive) - ups
    total = float((ranks[positive].double() + 1).sum()) / 2  # mean rank of ties, from 1
    return (total - ups * (ups + 1) / 2) / (ups * downs)


@register
class AucScore(Measure):
    """Area under the ROC curve of a model of one score, or of the second of two logits, on each split.

    AUC = share of pairs (positive, negative) in order, ties half; exact over the whole split.

    Args:
        positive: labels that count as positive; null takes label 1

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 0.02}
        measures: [auc_score]
    """

    reports: ClassVar[tuple[str, ...]] = ("train", "val", "test")

    def __init__(self, positive: list[int] | None = None) -> None:
        self.positive = positive

    @torch.no_grad()
    def measure(self, trained: Trained) -> Measured:
        model: Any = trained.model
        values = {}
        for split in trained.splits:
            parts, labels = [], []
            for batch in trained.batches(split):
                outputs = model(batch["x"])
                parts.append(outputs[:, 1] - outputs[:, 0] if outputs.shape[-1] == 2 else outputs.reshape(-1))
                labels.append(batch["y"])
                if outputs.dim() == 2 and outputs.shape[1] > 2:
                    raise Skipped(f"it needs one score an example, and the model gives {outputs.shape[1]}")
            y = torch.cat(labels)
            positive = torch.isin(y, torch.tensor(self.positive or [1], device=y.device))
            if 0 < int(positive.sum()) < len(positive):
                values[split] = auc(torch.cat(parts), positive)
        if not values:
            raise Skipped("no split has both classes")
        return Measured(values=values)
