"""What boosting of Z-learners is made of: promised error pairs, weak learners and rules that turn scores into labels.

The label of an example is positive or not. For a distribution D over examples with label mass p = P_D[positive], a
hypothesis h has the pair (FP, FN) = (P_D[h = 1, negative], P_D[h = 0, positive]): joint masses, FP + FN is its error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from raycipe.framework.contracts.component import Component

Hypothesis = Callable[[np.ndarray], np.ndarray]  # X (n, d) -> (n,) in [0, 1], the probability of saying positive
Fit = Callable[[np.ndarray, np.random.Generator], Hypothesis]  # weights (n,) of sum 1, generator -> hypothesis


class ZSet(Component, ABC):
    """A set of pairs (FP, FN) in the unit square: what a weak learner promises."""

    @abstractmethod
    def pieces(self) -> list[np.ndarray]:
        """Convex polygons (k, 2) inside the unit square whose union is the set; a point or a segment is one, too.

        Corners stand in counter-clockwise order. Raises ValueError, argument's name first, if the set is empty.
        """


class WeakLearner(Component, ABC):
    """A learner that is fitted to weighted examples, again and again on the same ones.

    `is_best_at_half` says that it returns, over all its hypotheses, the least error under the weights given: then the
    label mass 1/2 makes tpr - fpr as large as it can be, and asking at other masses gains nothing.
    """

    is_best_at_half: ClassVar[bool] = False

    def allows_nan(self) -> bool:
        """Whether X may hold NaN."""
        return False

    @abstractmethod
    def prepare(self, X: np.ndarray, y: np.ndarray) -> Fit:
        """What all fits on X (n, d) and y (n,) bool share is done once; the function that comes back fits.

        Hypotheses can be copied and pickled. Randomness comes from the generator alone.
        """


class Vote(Component, ABC):
    """Turns scores into labels: positive above `high`, negative at `low` and below, undecided between."""

    @abstractmethod
    def thresholds(self, scores: np.ndarray, y: np.ndarray, weights: np.ndarray, held_out: bool) -> tuple[float, float]:
        """(low, high), low <= high, from scores (n,) in [0, 1], labels (n,) bool and weights (n,).

        `held_out`: whether the scores are of examples that the learners have not seen. Raises RunError if the
        examples are too few for what the rule guarantees.
        """
