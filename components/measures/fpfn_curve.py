"""False negatives against false positives."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from raycipe.components.estimators._operating import operating_scores
from raycipe.components.measures._two_classes import scored
from raycipe.framework.arguments import Length, Range
from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import register

LARGEST_TABLE = 1000


@register
class FpfnCurve(Measure):
    """The curve of (FP, FN) over all thresholds on the score, the least FN within each of some budgets, and the ROC.

    fn_at_<percent> is the least mass of false negatives with FP within that many percent of all examples, as counted on
    the split itself: what a threshold chosen before can at best reach there.

    Args:
        split: examples to measure on
        budgets: masses of false positives

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, positive: malignant, rounds: 50}
        measures: [{type: fpfn_curve, budgets: [0.01, 0.05]}]
    """

    needs: ClassVar[tuple[str, ...]] = ("splits",)

    def __init__(
        self,
        split: Literal["train", "val", "test"] = "test",
        budgets: Annotated[list[Annotated[float, Range(gt=0, lt=1)]], Length(1, 20)] = [0.01, 0.05],  # noqa: B006
    ) -> None:
        self.split = split
        self.budgets = budgets

    def measure(self, trained: Trained) -> Measured:
        part = scored(trained, self.split)
        fp, fn, at = curve(part.scores, part.y)
        values = {"auroc": auroc(fp, fn)}
        for budget in self.budgets:
            values[f"fn_at_{100 * budget:g}"] = float(fn[fp <= budget + 1e-12].min())
        own: tuple[float, float] | None = None
        if part.thresholds is not None:
            errors = operating_scores(part.scores, part.y, *part.thresholds)
            own = errors["fp"], errors["fn"]
        kept = np.unique(np.linspace(0, len(fp) - 1, min(len(fp), LARGEST_TABLE)).astype(int))
        rows = [{"threshold": float(at[i]), "fp": float(fp[i]), "fn": float(fn[i])} for i in kept]
        return Measured(
            values=values, tables={"curve": rows}, figures={"curve": lambda: draw(fp, fn, self.budgets, own)}
        )


def curve(scores: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(FP, FN, threshold) at every threshold from above all scores downwards; positive is what lies above."""
    order = np.argsort(-scores, kind="stable")
    ordered, label = scores[order], y[order]
    last = np.concatenate([ordered[1:] < ordered[:-1], [True]])  # of equal scores the last
    fp = np.concatenate([[0], np.cumsum(~label)[last]]) / len(y)
    fn = (y.sum() - np.concatenate([[0], np.cumsum(label)[last]])) / len(y)
    at = np.concatenate([ordered[:1], np.concatenate([ordered[1:], [-np.inf]])[last]])
    return fp, fn, at


def auroc(fp: np.ndarray, fn: np.ndarray) -> float:
    """The area under the curve of rates, from masses."""
    return float(np.trapezoid(1 - fn / fn[0], fp / fp[-1]))


def draw(fp: np.ndarray, fn: np.ndarray, budgets: list[float], own: tuple[float, float] | None) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.step(fp, fn, where="post", color="#4c78a8")
    for budget in budgets:
        left.axvline(budget, color="#bbbbbb", linewidth=1, linestyle="--")
    if own is not None:
        left.plot(*own, "*", color="#e45756", markersize=12, label="the estimator's threshold")
        left.legend()
    left.set(xlabel="false positives (mass)", ylabel="false negatives (mass)", xlim=(0, None), ylim=(0, None))
    right.step(fp / fp[-1], 1 - fn / fn[0], where="post", color="#4c78a8")
    right.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1)
    right.set(xlabel="false positive rate", ylabel="true positive rate", title="ROC")
    return figure
