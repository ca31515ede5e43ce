"""What a learner was seen to promise."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from raycipe.components.measures._two_classes import boosted_of
from raycipe.components.measures.boostability import verdict
from raycipe.components.z_sets import _geometry as geometry
from raycipe.components.z_sets import _plane as plane
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register


@register
class ObservedZ(Measure):
    """Tests whether the convex hull of all pairs (FP, FN) that the learner of zboost gave could be boosted.

    A learner that answered each distribution well may still have a trivial hull: one label mass for all of its pairs is
    more than boosting needs. least_edge is the smallest |tpr - fpr| of a round, at label mass least_edge_p.

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, positive: malignant, rounds: 20}
        measures: [observed_z]
    """

    needs: ClassVar[tuple[str, ...]] = ("estimator",)
    reports: ClassVar[tuple[str, ...]] = ("boostable", "gamma", "p_star", "least_edge", "least_edge_p", "pairs")

    def __init__(self) -> None:
        pass

    def measure(self, trained: Trained) -> Measured:
        boosted = boosted_of(trained)
        if not boosted.asked:
            raise Skipped("the learner was never asked")
        queries = np.array([(fp, fn, p) for _, p, fp, fn in boosted.asked])
        hull = np.clip(geometry.hull(queries[:, :2]), 0, 1)
        found = geometry.boostability([hull])
        values = {
            "boostable": float(found.is_boostable),
            "gamma": found.gamma,
            "p_star": found.p_star,
            "pairs": float(len(queries)),
        }
        if boosted.rounds:
            least = min(boosted.rounds, key=lambda each: each.edge)
            values |= {"least_edge": least.edge, "least_edge_p": least.p}
        rows = [{"fp": float(fp), "fn": float(fn)} for fp, fn in hull]
        return Measured(
            values=values,
            text={"verdict": verdict(found)},
            tables={"hull": rows},
            figures={"plane": lambda: plane.draw([hull], found, queries)},
        )
