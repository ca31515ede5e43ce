"""Several bounds at once."""

from __future__ import annotations

from typing import Annotated, TypedDict

import numpy as np

from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.arguments import Length
from raycipe.framework.contracts import ZSet
from raycipe.framework.registry import register


class Objective(TypedDict):
    """w1 FP + w2 FN <= bound.

    Args:
        weights: w1 of false positives, w2 of false negatives
        bound: of the weighted sum
    """

    weights: Annotated[list[float], Length(2, 2)]
    bound: float


@register
class MultiObjective(ZSet):
    """All pairs that keep every one of several bounds w1 FP + w2 FN <= b: a convex set.

    Args:
        objectives: the bounds, each with its weights

    Reference:
        M. Bressan et al., Of Dice and Games: A Theory of Generalized Boosting, COLT 2025.

    Recipe:
        data: breast_cancer
        estimator:
          type: zboost
          z:
            type: multi_objective
            objectives: [{weights: [1, 0], bound: 0.1}, {weights: [1, 2], bound: 0.9}]
          rounds: 20
    """

    def __init__(self, objectives: Annotated[list[Objective], Length(1, 1000)]) -> None:
        for objective in objectives:
            if not all(map(np.isfinite, [*objective["weights"], objective["bound"]])):
                raise ValueError("objectives: weights and bounds must be finite")
        self.objectives = objectives
        self.pieces()  # refuses an empty set

    def pieces(self) -> list[np.ndarray]:
        piece = geometry.SQUARE
        for objective in self.objectives:
            piece = geometry.clip(piece, objective["weights"], objective["bound"])
        return geometry.non_empty([piece], "objectives")
