"""Rules that people wrote."""

from __future__ import annotations

from typing import Annotated, TypedDict

import numpy as np

from raycipe.components.weak_learners._pairs import Above, Constant, pair
from raycipe.framework.arguments import FromData, Length
from raycipe.framework.contracts import Fit, Hypothesis, WeakLearner
from raycipe.framework.errors import RunError, shown
from raycipe.framework.registry import register
from raycipe.framework.words import listed, nearest


class Rule(TypedDict):
    """Positive where a feature is above a value.

    Args:
        feature: its name, or its number from 0
        above: the value, in the units that the data gives
    """

    feature: str | int
    above: float


@register
class Rules(WeakLearner):
    """A given list of rules: each fit returns the one with the largest |tpr - fpr| under the weights.

    Args:
        rules: the hypotheses to choose from
        feature_names: of the data's columns

    Recipe:
        data: {type: breast_cancer, standardize: false}
        estimator:
          type: zboost
          positive: malignant
          rounds: 10
          weak: {type: rules, rules: [{feature: worst radius, above: 17}, {feature: 7, above: 0.05}]}
    """

    def __init__(
        self,
        rules: Annotated[list[Rule], Length(1, 10_000)],
        feature_names: Annotated[list[str] | None, FromData("feature_names")] = None,
    ) -> None:
        self.rules = rules
        self.feature_names = feature_names

    def prepare(self, X: np.ndarray, y: np.ndarray) -> Fit:
        candidates = [Above(self._column(rule["feature"], X.shape[1]), rule["above"]) for rule in self.rules]
        values = np.stack([candidate(X) for candidate in candidates])

        def fit(weights: np.ndarray, generator: np.random.Generator) -> Hypothesis:
            mass = float(weights[y].sum())
            if not 0 < mass < 1:
                return Constant(0.5)
            edges = []
            for row in values:
                fp, fn = pair(row, y, weights)
                edges.append(1 - fn / mass - fp / (1 - mass))
            return candidates[int(np.abs(edges).argmax())]

        return fit

    def _column(self, feature: str | int, count: int) -> int:
        names = self.feature_names or []
        if isinstance(feature, int):
            if 0 <= feature < count:
                return feature
            raise RunError("data", f"rules: there is no feature {feature}", f"0 to {count - 1}", "estimator.weak.rules")
        if feature in names:
            return names.index(feature)
        near = nearest(feature, names)
        hint = f"did you mean `{shown(near)}`?" if near else f"known: {listed(names) or 'numbers from 0'}"
        raise RunError("data", f"rules: there is no feature `{shown(feature)}`", hint, "estimator.weak.rules")
