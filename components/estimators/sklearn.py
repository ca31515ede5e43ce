"""scikit-learn's own estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypedDict

import numpy as np

from raycipe.components.estimators import _scikit
from raycipe.components.estimators._wrapped import Wrapped
from raycipe.framework.arguments import Range
from raycipe.framework.registry import register

Value = bool | float | str | None | list[float | str]


class _Step(TypedDict):
    name: _scikit.StepName


class Step(_Step, total=False):
    """A step with arguments.

    Args:
        name: the step
        arguments: its own parameters, by name
    """

    arguments: dict[str, Value]


@register
class Sklearn(Wrapped):
    """An estimator of scikit-learn, behind steps of preprocessing that are fitted on the training examples alone.

    Its parameters are those of scikit-learn, checked before anything runs. Fitting takes one thread per CPU of
    resources.cpus_per_worker.

    Args:
        name: the estimator's class in scikit-learn
        arguments: its own parameters, by name; what is left out has scikit-learn's default
        preprocessing: steps before it, in this order: a name, or {name: pca, arguments: {n_components: 10}}
        folds: 2 or more also cross-validates on the training examples: estimator/cv_accuracy and its relatives

    Reference:
        F. Pedregosa et al., Scikit-learn: Machine Learning in Python, JMLR 2011.

    Recipe:
        data: breast_cancer
        estimator:
          type: sklearn
          name: LogisticRegression
          arguments: {C: 0.1}
          preprocessing: [standard_scaler]
    """

    given: ClassVar[tuple[str, ...]] = ("seed",)

    def __init__(
        self,
        name: _scikit.Name,
        arguments: dict[str, Value] = {},  # noqa: B006 (never changed)
        preprocessing: list[_scikit.StepName | Step] = [],  # noqa: B006 (never changed)
        folds: Annotated[int, Range(ge=0, le=1000)] = 0,
        seed: int = 0,
    ) -> None:
        if folds == 1:
            raise ValueError("folds: must be 0, or 2 and more")
        self.name = name
        self.arguments = arguments
        self.preprocessing = preprocessing
        self.folds = folds
        self.seed = seed
        self.steps()  # scikit-learn's own range check

    def steps(self) -> list[Any]:
        """The unfitted steps, the estimator last. Raises ValueError, argument's name first."""
        made = []
        for number, step in enumerate(self.preprocessing):
            name, arguments = (step, {}) if isinstance(step, str) else (step["name"], step.get("arguments", {}))
            cls = _scikit.class_of(*_scikit.STEPS[name])
            made.append(_scikit.make(cls, arguments, self.seed, f"preprocessing: entry {number}"))
        cls = _scikit.class_of(_scikit.HOMES[self.name], self.name)
        return [*made, _scikit.make(cls, self.arguments, self.seed, "arguments")]

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        steps = self.steps()
        _scikit.check_target(steps[-1], self.name, facts)
        for split, roles in splits.items():
            _scikit.check_missing(steps, self.name, facts, roles["X"], split)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **roles: Any) -> Any:
        """X (n, d), y (n,) or (n, targets); weights (n,) as `sample_weight`, or as the role `weights`."""
        from sklearn.pipeline import make_pipeline
        from sklearn.utils.validation import has_fit_parameter

        steps = self.steps()
        weights = roles.get("weights", sample_weight)
        given = {}
        if weights is not None:
            if not has_fit_parameter(steps[-1], "sample_weight"):
                raise ValueError(f"{self.name} can't weigh examples, and the data has weights")
            given = {f"{type(steps[-1]).__name__.lower()}__sample_weight": weights}
        self.fitted_ = make_pipeline(*steps).fit(X, _column(y), **given)
        self.keep_facts_of(self.fitted_)
        return self

    def deciding(self) -> Any:
        from sklearn.pipeline import make_pipeline

        return vars(self).get("fitted_") or make_pipeline(*self.steps())

    def inputs(self, X: Any) -> Any:
        return X


def _column(y: Any) -> Any:
    """(n, 1) as (n,), which scikit-learn asks for."""
    return y[:, 0] if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1 else y
