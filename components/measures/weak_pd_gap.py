"""The weak primal-dual gap of a minimax result, and how it generalizes."""

from __future__ import annotations

from typing import ClassVar, Literal

from raycipe.components.measures._risks import best_value, saddle_of, whole_split, worst_value
from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import register


@register
class WeakPdGap(Measure):
    """Primal-dual gap max over v' of F(w, v') - min over w' of F(w', v), on held-out and on training examples.

    `generalization` is the difference of the two. For one run the expectation over algorithm and data is a single draw:
    average it over seeds. Inner problems are solved to 1e-8, the maximum in closed form where the task has one.

    Args:
        split: the held-out split that stands for the population

    Reference:
        J. Zhang, M. Hong, M. Wang, S. Zhang, Generalization Bounds for Stochastic Saddle Point Problems, AISTATS 2021.

    Recipe:
        data: {type: gauss_auc, examples: 64, dim: 4}
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 1.0, schedule: theory}
        measures: [weak_pd_gap]
    """

    reports: ClassVar[tuple[str, ...]] = ("population", "empirical", "generalization")

    def __init__(self, split: Literal["test", "val"] = "test") -> None:
        self.split = split

    def measure(self, trained: Trained) -> Measured:
        task, saddle = saddle_of(trained)
        unit = task.unit(saddle)
        gaps = []
        for name in (self.split, "train"):
            batch = whole_split(trained, name)
            gaps.append((worst_value(task, saddle, batch) - best_value(task, saddle, batch)) / unit)
        return Measured(values={"population": gaps[0], "empirical": gaps[1], "generalization": gaps[0] - gaps[1]})
