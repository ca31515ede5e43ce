"""How well a minimax problem is solved on its training examples."""

from __future__ import annotations

from typing import ClassVar

from raycipe.components.measures._risks import best_value, saddle_of, whole_split, worst_value
from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import register


@register
class DualityGapEmpirical(Measure):
    """Duality gap on the training split: max over v' of F_S(w, v') - min over w' of F_S(w', v); 0 at a saddle.

    Inner problems are solved to 1e-8, the maximum in closed form where the task has one; f must be convex in w. Values
    are in the task's unit.

    Recipe:
        data: {type: gauss_auc, examples: 64, dim: 4}
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 1.0, schedule: theory}
        measures: [duality_gap_empirical]
    """

    reports: ClassVar[tuple[str, ...]] = ("gap", "worst", "best")

    def measure(self, trained: Trained) -> Measured:
        task, saddle = saddle_of(trained)
        unit, batch = task.unit(saddle), whole_split(trained, "train")
        worst, best = worst_value(task, saddle, batch) / unit, best_value(task, saddle, batch) / unit
        return Measured(values={"gap": worst - best, "worst": worst, "best": best})
