"""Both kinds of errors bounded, each for itself."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from raycipe.framework.arguments import Range
from raycipe.framework.contracts import ZSet
from raycipe.framework.registry import register

Mass = Annotated[float, Range(ge=0, le=1)]


@register
class Box(ZSet):
    """All pairs with FP <= a and FN <= b.

    It can be boosted exactly if sqrt(a) + sqrt(b) < 1; then gamma = 1 - (sqrt(a) + sqrt(b))² at label mass
    sqrt(b) / (sqrt(a) + sqrt(b)).

    Args:
        fp: a, the largest mass of false positives
        fn: b, the largest mass of false negatives

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, z: {type: box, fp: 0.1, fn: 0.3}, rounds: 20}
    """

    def __init__(self, fp: Mass, fn: Mass) -> None:
        self.fp = fp
        self.fn = fn

    def pieces(self) -> list[np.ndarray]:
        a, b = self.fp, self.fn
        corners = np.array([[0.0, 0.0], [a, 0.0], [a, b], [0.0, b]])
        return [corners[[0, 1, 2, 3] if a and b else [0, 1] if a else [0, 3] if b else [0]]]
