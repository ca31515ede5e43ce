"""How far the scores of an ensemble lie from its threshold."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from raycipe.components.measures._two_classes import scored
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register


@register
class MarginProfile(Measure):
    """The distribution of margins: how far each example's score lies on its own side of the threshold.

    margin = ±(score - threshold) / (largest possible distance on that side), in [-1, 1]; negative is an error. Boosting
    goes on to widen the small ones after all labels are separated.

    Args:
        split: examples to measure on

    Reference:
        R. Schapire, Y. Freund, P. Bartlett, W. S. Lee, Boosting the Margin, Annals of Statistics 1998.

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, positive: malignant, rounds: 50}
        measures: [{type: margin_profile, split: train}]
    """

    needs: ClassVar[tuple[str, ...]] = ("estimator", "splits")
    reports: ClassVar[tuple[str, ...]] = ("least", "tenth", "median", "errors")

    def __init__(self, split: Literal["train", "val", "test"] = "train") -> None:
        self.split = split

    def measure(self, trained: Trained) -> Measured:
        part = scored(trained, self.split)
        if part.thresholds is None:
            raise Skipped("it needs the threshold of an estimator that votes")
        margins = margins_of(part.scores, part.y, trained.estimator.threshold_)
        least, tenth, median = (float(value) for value in np.quantile(margins, [0, 0.1, 0.5]))
        values = {"least": least, "tenth": tenth, "median": median, "errors": float((margins <= 0).mean())}
        rows = [{"share": k / 100, "margin": float(np.quantile(margins, k / 100))} for k in range(101)]
        return Measured(values=values, tables={"margins": rows}, figures={"margins": lambda: draw(margins, part.y)})


def margins_of(scores: np.ndarray, y: np.ndarray, threshold: float) -> np.ndarray:
    """(n,) in [-1, 1]."""
    distance = np.where(y, scores - threshold, threshold - scores)
    room = np.where(scores > threshold, 1 - threshold, threshold)
    return np.clip(distance / np.maximum(room, 1e-12), -1, 1)


def draw(margins: np.ndarray, y: np.ndarray) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.8), layout="constrained")
    axes = figure.subplots()
    for label, name, color in ((y, "positive", "#e45756"), (~y, "negative", "#4c78a8")):
        ordered = np.sort(margins[label])
        axes.step(ordered, np.arange(1, len(ordered) + 1) / len(ordered), where="post", label=name, color=color)
    axes.axvline(0, color="black", linewidth=1)
    axes.set(xlabel="margin", ylabel="share of examples at or below", xlim=(-1, 1))
    axes.legend()
    return figure
