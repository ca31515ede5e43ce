"""Whether a classifier is as sure as it is right."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from raycipe.components.measures._predictions import predict
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import register


@register
class CalibrationError(Measure):
    """Expected and largest calibration error of a classifier, with the reliability diagram.

    Examples are binned by confidence p_i = max_k p(k | x_i) into B equal bins; with acc_b and conf_b the means there,
    ece = sum_b (n_b / n) |acc_b - conf_b|, mce = max_b |acc_b - conf_b|, and overconfidence = mean(p) - accuracy.

    Args:
        split: examples to measure on
        bins: B; more bins resolve finer and are noisier (ece is biased upwards by about sqrt(B / n))

    Reference:
        C. Guo, G. Pleiss, Y. Sun, K. Weinberger, On Calibration of Modern Neural Networks, ICML 2017.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: sgd
        measures: [{type: calibration_error, bins: 10}]
    """

    needs: ClassVar[tuple[str, ...]] = ("splits",)
    reports: ClassVar[tuple[str, ...]] = ("ece", "mce", "overconfidence")

    def __init__(
        self, split: Literal["train", "val", "test"] = "test", bins: Annotated[int, Range(ge=2, le=1000)] = 15
    ) -> None:
        self.split = split
        self.bins = bins

    def measure(self, trained: Trained) -> Measured:
        probabilities, labels = predict(trained, self.split)
        confidence, predicted = probabilities.max(dim=1)
        correct = (predicted == labels).double()
        counts, accuracy, mean_confidence = reliability(confidence, correct, self.bins)
        gap = (accuracy - mean_confidence).abs()
        values = {
            "ece": float((counts / counts.sum() * gap).sum()),
            "mce": float(gap.max()),
            "overconfidence": float(confidence.mean() - correct.mean()),
        }
        rows = [
            {"bin": f"{b / self.bins:.3f} .. {(b + 1) / self.bins:.3f}", "examples": int(counts[b])}
            | {"confidence": float(mean_confidence[b]), "accuracy": float(accuracy[b])}
            for b in range(self.bins)
            if counts[b]
        ]
        figure = lambda: draw(counts, accuracy, mean_confidence, values["ece"])  # noqa: E731 (drawn when wanted)
        return Measured(values=values, figures={"reliability": figure}, tables={"reliability": rows})


def reliability(confidence: Tensor, correct: Tensor, bins: int) -> tuple[Tensor, Tensor, Tensor]:
    """Count, accuracy and mean confidence per bin, (bins,) each; bin b is (b / bins, (b + 1) / bins], empty ones 0."""
    index = ((confidence * bins).ceil().long() - 1).clamp(0, bins - 1)
    counts = torch.bincount(index, minlength=bins).double()
    filled = counts.clamp(min=1)
    accuracy = torch.bincount(index, weights=correct, minlength=bins) / filled
    mean_confidence = torch.bincount(index, weights=confidence, minlength=bins) / filled
    return counts, accuracy, mean_confidence


def draw(counts: Tensor, accuracy: Tensor, confidence: Tensor, ece: float) -> Any:
    """The reliability diagram: accuracy against confidence above, how many examples lie in each bin below."""
    from matplotlib.figure import Figure

    bins = len(counts)
    centres = [(b + 0.5) / bins for b in range(bins)]
    figure = Figure(figsize=(4.5, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.plot([0, 1], [0, 1], color="0.6", linestyle="--", label="calibrated")
    filled = counts > 0
    above.bar(centres, accuracy.tolist(), width=0.9 / bins, color="#4c78a8", label="accuracy")
    above.plot(confidence[filled].tolist(), accuracy[filled].tolist(), "o", color="#f58518", markersize=4)
    above.set(ylabel="accuracy", title=f"expected calibration error {ece:.3f}", xlim=(0, 1), ylim=(0, 1))
    above.legend(loc="upper left", frameon=False)
    below.bar(centres, counts.tolist(), width=0.9 / bins, color="0.6")
    below.set(xlabel="confidence", ylabel="examples")
    return figure
