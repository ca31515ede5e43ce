"""The classical promise."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import ZSet
from raycipe.framework.registry import register


@register
class Weak(ZSet):
    """An error of at most 1/2 - gamma: classical weak learning.

    Its own gap is 2 gamma, at label mass 1/2.

    Args:
        gamma: the edge over a fair coin

    Reference:
        R. E. Schapire, Y. Freund, Boosting: Foundations and Algorithms, 2012.

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, z: {type: weak, gamma: 0.1}, rounds: 20}
    """

    def __init__(self, gamma: Annotated[float, Range(ge=0, le=0.5)] = 0.1) -> None:
        self.gamma = gamma

    def pieces(self) -> list[np.ndarray]:
        return [geometry.clip(geometry.SQUARE, (1, 1), 0.5 - self.gamma)]
