"""Which classes are taken for which."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from raycipe.components.measures._predictions import predict
from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import register

NUMBERED = 20  # up to this many classes the picture shows the counts


@register
class ConfusionMatrix(Measure):
    """The confusion matrix as a picture and a table, with the recall of each class.

    M_jk counts the examples of class j that were taken for class k. balanced_accuracy = mean_j M_jj / sum_k M_jk over
    the classes that occur, worst_recall the least of these.

    Args:
        split: examples to measure on

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: sgd
        measures: [{type: confusion_matrix, split: test}]
    """

    needs: ClassVar[tuple[str, ...]] = ("splits",)
    reports: ClassVar[tuple[str, ...]] = ("balanced_accuracy", "worst_recall")

    def __init__(self, split: Literal["train", "val", "test"] = "test") -> None:
        self.split = split

    def measure(self, trained: Trained) -> Measured:
        probabilities, labels = predict(trained, self.split)
        matrix = confusion(probabilities.argmax(dim=1), labels, probabilities.shape[1])
        names = trained.facts.get("class_names") or [str(k) for k in range(len(matrix))]
        occurs = matrix.sum(dim=1) > 0
        recall = matrix.diagonal() / matrix.sum(dim=1).clamp(min=1)
        rows = [
            {"class": name, "examples": int(row.sum()), "recall": float(share)}
            | {f"as {other}": int(count) for other, count in zip(names, row, strict=True)}
            for name, row, share in zip(names, matrix, recall, strict=True)
        ]
        return Measured(
            values={
                "balanced_accuracy": float(recall[occurs].double().mean()),
                "worst_recall": float(recall[occurs].min()),
            },
            figures={"confusion": lambda: draw(matrix, names)},
            tables={"confusion": rows},
        )


def confusion(predicted: Tensor, labels: Tensor, classes: int) -> Tensor:
    """(classes, classes) int64: row = label, column = prediction."""
    return torch.bincount(labels * classes + predicted, minlength=classes**2).reshape(classes, classes)


def draw(matrix: Tensor, names: list[str]) -> Any:
    """Shares per row as shades, counts as numbers."""
    from matplotlib.figure import Figure

    size = min(12.0, 3 + 0.4 * len(names))
    figure = Figure(figsize=(size, size), layout="constrained")
    axes = figure.subplots()
    shares = matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1)
    axes.imshow(shares.numpy(), cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="taken for", ylabel="is")
    if len(names) <= NUMBERED:
        axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
        axes.set_yticks(range(len(names)), names)
        for j, k in matrix.nonzero().tolist():
            shade = "white" if shares[j, k] > 0.5 else "black"
            axes.text(k, j, str(int(matrix[j, k])), ha="center", va="center", color=shade, fontsize=8)
    return figure
