"""Any classifier at a chosen operating point."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from sklearn.base import clone

from raycipe.components.estimators import _operating as operating
from raycipe.components.estimators._binary import Binary
from raycipe.framework.arguments import FromData, Range, default
from raycipe.framework.contracts import Estimator, Measured, Vote
from raycipe.framework.registry import register


@register
class OperatingPoint(Binary):
    """Fits another classifier of two classes, and lets a vote set the threshold of its scores on held-out examples.

    So that classifiers can be compared at the same false positives, or kept within a budget with a guarantee. Its
    scores are the other's `vote_scores`, else its probabilities, else its decision function by the logistic curve.

    Args:
        base: the classifier
        vote: turns scores into labels
        calibration: share of the training examples held out for the vote and for probabilities; 0 uses all for both
        positive: the class to find, by its name; null takes the second of the two
        class_names: of the data

    Reference:
        X. Tong, Y. Feng, J. J. Li, Neyman-Pearson Classification Algorithms and NP ROC, Science Advances 2018.

    Recipe:
        data: breast_cancer
        estimator:
          type: operating_point
          positive: malignant
          base: {type: sklearn, name: LogisticRegression}
          vote: {type: budget, fp_budget: 0.05, delta: null}
    """

    reports: ClassVar[tuple[str, ...]] = ("low", "high")
    given: ClassVar[tuple[str, ...]] = ("seed",)

    def __init__(
        self,
        base: Estimator,
        vote: Vote = default("threshold"),
        calibration: Annotated[float, Range(ge=0, lt=1)] = 0.25,
        positive: str | int | None = None,
        class_names: Annotated[list[str] | None, FromData("class_names")] = None,
        seed: int = 0,
    ) -> None:
        self.base = base
        self.vote = vote
        self.calibration = calibration
        self.positive = positive
        self.class_names = class_names
        self.seed = seed

    def allows_nan(self) -> bool:
        from sklearn.utils import get_tags

        return bool(get_tags(self.base).input_tags.allow_nan)

    def learn(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        given = {} if np.all(weights == weights[0]) else {"weights": weights}
        self.base_: Any = clone(self.base).fit(X, y.astype(np.int64), **given)

    def score_rows(self, X: np.ndarray) -> np.ndarray:
        for word, column in (("vote_scores", None), ("predict_proba", 1), ("decision_function", None)):
            if hasattr(self.base_, word):
                found = np.asarray(getattr(self.base_, word)(X), dtype=float)
                found = found if column is None else found[:, column]
                return operating.Platt(1.0, 0.0)(found) if word == "decision_function" else found
        raise ValueError("base: tells neither probabilities nor scores")

    def evidence(self) -> Measured:
        low, high = (float(np.clip(value, 0, 1)) for value in self.thresholds_)
        return Measured(values={"low": low, "high": high})
