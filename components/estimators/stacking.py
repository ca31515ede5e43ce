"""Several estimators, and one that learns from their predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from raycipe.framework.arguments import Length, Range
from raycipe.framework.contracts import Estimator
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class Stacking(Estimator):
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

    def fit(self, X: Any, y: Any = None, **roles: Any) -> Any:
        part = numpy_generator(self.seed, "stacking").permutation(len(X)) % self.parts
        columns = [self._held_out(number, X, y, part, roles) for number in range(len(self.estimators))]
        self.final.fit(np.concatenate(columns, axis=1), y, **roles)
        for estimator in self.estimators:
            estimator.fit(X, y, **roles)
        if hasattr(self.final, "classes_"):
            self.classes_ = self.final.classes_
        return self

    def _held_out(self, number: int, X: Any, y: Any, part: np.ndarray, roles: Mapping[str, Any]) -> np.ndarray:
        """Predictions (n, outputs) of one estimator, each by a fit that has not seen the example."""
        estimator = self.estimators[number]
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

    def predict(self, X: Any) -> np.ndarray:
        """(n,) classes or numbers."""
        return np.asarray(self.final.predict(self._features(X)))  # type: ignore[attr-defined]  # as scikit-learn's

    def __getattr__(self, word: str) -> Any:
        if word == "predict_proba" and hasattr(vars(self).get("final"), "predict_proba"):
            return lambda X: self.final.predict_proba(self._features(X))  # type: ignore[attr-defined]
        raise AttributeError(f"{type(self).__name__} has no `{word}`")

    def _features(self, X: Any) -> np.ndarray:
        return np.concatenate([_outputs(estimator, X) for estimator in self.estimators], axis=1)


def _outputs(estimator: Any, X: Any) -> np.ndarray:
    """What the final estimator sees of one: probabilities without the last class, which they determine, or numbers."""
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X))[:, :-1]
    predicted = np.asarray(estimator.predict(X), dtype=np.float64)
    return predicted.reshape(len(X), -1)
