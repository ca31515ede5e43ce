"""Where a learner and the classifier boosted from it lie in the plane of errors."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from raycipe.components.estimators._operating import operating_scores
from raycipe.components.measures._two_classes import boosted_of, scored
from raycipe.components.z_sets import _plane as plane
from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import build, register


@register
class Zplane(Measure):
    """Every pair (FP, FN) that the learner of zboost gave, the promise, and the final operating point, as one picture.

    Below the curve sqrt(FP) + sqrt(FN) = 1 lies what beats a coin at some label mass.

    Args:
        split: examples of the operating point

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, positive: malignant, rounds: 20}
        measures: [zplane]
    """

    needs: ClassVar[tuple[str, ...]] = ("estimator", "splits")
    reports: ClassVar[tuple[str, ...]] = ("fp", "fn", "seen_fp", "seen_fn")

    def __init__(self, split: Literal["train", "val", "test"] = "test") -> None:
        self.split = split

    def measure(self, trained: Trained) -> Measured:
        boosted, estimator = boosted_of(trained), trained.estimator
        part = scored(trained, self.split)
        errors = operating_scores(part.scores, part.y, *estimator.thresholds_)
        queries = np.array([(fp, fn, p) for _, p, fp, fn in boosted.asked]).reshape(-1, 3)
        pieces = [] if estimator.z is None else build(estimator.z, "z_sets").pieces()
        points = {f"boosted, on {self.split}": (errors["fp"], errors["fn"])}
        values = {"fp": errors["fp"], "fn": errors["fn"]}
        if len(queries):
            values |= {"seen_fp": float(queries[:, 0].mean()), "seen_fn": float(queries[:, 1].mean())}
        return Measured(values=values, figures={"plane": lambda: plane.draw(pieces, estimator.test_, queries, points)})
