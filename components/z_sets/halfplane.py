"""Errors below a line."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.arguments import Length
from raycipe.framework.contracts import ZSet
from raycipe.framework.registry import register


@register
class Halfplane(ZSet):
    """All pairs with w1 FP + w2 FN <= bound: a cost-sensitive promise.

    With w > 0 it can be boosted exactly if bound < V = w1 w2 / (w1 + w2), the value of the game; then gamma =
    1 - bound / V at label mass w1 / (w1 + w2). Negative weights tell promises to be worse than a line.

    Args:
        weights: w1 of false positives, w2 of false negatives
        bound: of the weighted sum

    Reference:
        M. Bressan et al., Of Dice and Games: A Theory of Generalized Boosting, COLT 2025.

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, z: {type: halfplane, weights: [1, 3], bound: 0.7}, rounds: 20}
    """

    def __init__(self, weights: Annotated[list[float], Length(2, 2)], bound: float) -> None:
        if not all(map(np.isfinite, [*weights, bound])) or not any(weights):
            raise ValueError(f"weights: must be finite and not both 0, not {weights}")
        self.weights = weights
        self.bound = bound
        self.pieces()  # refuses an empty set

    def pieces(self) -> list[np.ndarray]:
        return geometry.non_empty([geometry.clip(geometry.SQUARE, self.weights, self.bound)], "bound")
