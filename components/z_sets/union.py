"""One promise or another."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from raycipe.framework.arguments import Length
from raycipe.framework.contracts import ZSet
from raycipe.framework.registry import register


@register
class Union(ZSet):
    """The learner may keep any one of several promises, another one each time.

    The union of two sets that can be boosted may be trivial: no label mass is good for both.

    Args:
        of: the sets

    Recipe:
        data: breast_cancer
        estimator:
          type: zboost
          z: {type: union, of: [{type: box, fp: 0.1, fn: 0.1}, {type: halfplane, weights: [1, 1], bound: 0.4}]}
          rounds: 20
    """

    def __init__(self, of: Annotated[list[ZSet], Length(1, 1000)]) -> None:
        self.of = of

    def pieces(self) -> list[np.ndarray]:
        return [piece for each in self.of for piece in each.pieces()]
