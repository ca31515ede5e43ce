"""Several estimators, and one that learns from their predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_sample_weight, validate_data

from raycipe.components.estimators._wrapped import Wrapped
from raycipe.framework.arguments import Length, Range
from raycipe.framework.contracts import Estimator
from raycipe.framework.errors import RunError, counted
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class Stacking(Wrapped):
    """Stacked generalization: `final` is fitted on predictions that the others make of examples they have not seen.

    The training examples are cut into K parts; each estimator j, fitted without part k, predicts it: z_ij. `final`
    learns y from the rows z_i (class probabilities where there are any), and the estimators are fitted on everything
    for use.

    Args:
        estimators: what is stacked
        final: learns from their predictions
        parts: K; more parts cost more fits and lose less training data
        folds: 2 or more also cross-validates the whole on the training examples

    Reference:
        D. H. Wolpert, Stacked Generalization, Neural Networks, 1992.

    Recipe:
        data: breast_cancer
        estimator:
          type: stacking
          estimators: [{type: sklearn, name: GaussianNB}, {type: sklearn, name: KNeighborsClassifier}]
          final: {type: sklearn, name: LogisticRegression}
    """

    given: ClassVar[tuple[str, ...]] = ("seed",)

    def __init__(
        self,
        estimators: Annotated[list[Estimator], Length(2, 100)],
        final: Estimator,
        parts: Annotated[int, Range(ge=2, le=1000)] = 5,
        folds: Annotated[int, Range(ge=0, le=1000)] = 0,
        seed: int = 0,
    ) -> None:
        if folds == 1:
            raise ValueError("folds: must be 0, or 2 and more")
        self.estimators = estimators
        self.final = final
        self.parts = parts
        self.folds = folds
        self.seed = seed

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        for estimator in self.estimators:
            estimator.check(facts, splits)
        finite = {name: {**roles, "X": np.zeros((1, 1))} for name, roles in splits.items()}
        self.final.check(facts, finite)  # it sees predictions, which are never missing
        count = len(splits["train"]["y"])
        least = count - math.ceil(count / self.folds) if self.folds else count  # a fold is left out
        if self.parts > least:
            beside = f", without one of {self.folds} folds" if self.folds else ""
            message = f"{self.parts} parts of {counted(least, 'training example')}{beside}"
            raise RunError("data", message, "lower estimator.parts", "estimator.parts")

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **roles: Any) -> Any:
        """X (n, d), y (n,) or (n, targets); weights (n,) as `sample_weight`, or as the role `weights`."""
        X, y = validate_data(self, X, y, multi_output=True, ensure_all_finite="allow-nan")
        if len(X) < self.parts:
            raise ValueError(f"parts: {self.parts} of n_samples={len(X)} examples: there must be no more than examples")
        if is_classifier(self.final) and len(np.unique(y)) < 2:
            raise ValueError("y: needs examples of at least two classes, not of one class alone")
        if sample_weight is not None:
            roles = {**roles, "weights": sample_weight}
        if roles.get("weights") is not None:
            roles["weights"] = _check_sample_weight(roles["weights"], X)
        part = numpy_generator(self.seed, "stacking").permutation(len(X)) % self.parts
        columns = [self._held_out(number, X, y, part, roles) for number in range(len(self.estimators))]
        self.final_ = clone(self.final).fit(np.concatenate(columns, axis=1), y, **roles)
        self.estimators_ = [clone(estimator).fit(X, y, **roles) for estimator in self.estimators]
        if hasattr(self.final_, "classes_"):
            self.classes_ = self.final_.classes_
        return self

    def deciding(self) -> Any:
        return vars(self).get("final_", self.final)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = all(get_tags(estimator).input_tags.allow_nan for estimator in self.estimators)
        return tags

    def inputs(self, X: Any) -> Any:
        """The predictions (n, columns) of the estimators."""
        rows = validate_data(self, X, reset=False, ensure_all_finite="allow-nan")
        return np.concatenate([_outputs(estimator, rows) for estimator in self.estimators_], axis=1)

    def _held_out(self, number: int, X: Any, y: Any, part: np.ndarray, roles: Mapping[str, Any]) -> np.ndarray:
        """Predictions (n, outputs) of one estimator, each by a fit that has not seen the example."""
        estimator: Any = clone(self.estimators[number])
        pieces: dict[int, np.ndarray] = {}
        for k in range(self.parts):
            seen, unseen = part != k, part == k
            estimator.fit(X[seen], y[seen], **{role: values[seen] for role, values in roles.items()})
            if hasattr(estimator, "classes_") and len(estimator.classes_) != len(np.unique(y)):
                raise ValueError(f"parts: a class is so rare that part {k} holds all of its examples")
            pieces[k] = _outputs(estimator, X[unseen])
        columns = np.zeros((len(X), pieces[0].shape[1]))
        for k, piece in pieces.items():
            columns[part == k] = piece
        return columns


def _outputs(estimator: Any, X: Any) -> np.ndarray:
    """What the final estimator sees of one: probabilities without the last class, which they determine, or numbers."""
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X))[:, :-1]
    predicted = np.asarray(estimator.predict(X), dtype=np.float64)
    return predicted.reshape(len(X), -1)
