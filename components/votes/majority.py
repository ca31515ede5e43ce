"""More than half."""

from __future__ import annotations

import numpy as np

from raycipe.framework.contracts import Vote
from raycipe.framework.registry import register


@register
class Majority(Vote):
    """Positive where more than half of the weighted votes are, as in AdaBoost.

    A booster of Z-learners need not separate at 1/2: see `threshold`.

    Reference:
        Y. Freund, R. E. Schapire, A Decision-Theoretic Generalization of On-Line Learning, JCSS 1997.

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, vote: majority, rounds: 50}
    """

    def __init__(self) -> None:
        pass

    def thresholds(self, scores: np.ndarray, y: np.ndarray, weights: np.ndarray, held_out: bool) -> tuple[float, float]:
        return 0.5, 0.5
