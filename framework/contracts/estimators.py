"""Estimators and what serves them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from raycipe.framework.contracts.component import Component
from raycipe.framework.contracts.trained import Measured


class Estimator(Component, ABC):
    """scikit-learn's contract: parameters only stored, `fit` returns self, fitted attributes end in `_`, clonable.

    A component also derives from `sklearn.base.BaseEstimator`, which supplies `get_params` and `set_params`. One whose
    randomness needs a seed names it in `given` and takes it as the constructor's `seed`: the recipe's.

    X is (examples, features), the features of an example in one row. `roles` are arrays of one entry per example, where
    the data has them: `weights`, `groups`, `treatment`, `instrument`. Fitting must not depend on the number of threads
    or processes. Scores come as `test/accuracy`, the values of `evidence` as `estimator/<name>`.
    """

    reports: ClassVar[tuple[str, ...]] = ()  # of `evidence`; empty leaves them open
    scored: ClassVar[tuple[str, ...]] = ()  # of `scores`, beside accuracy, rmse and their like
    fan_out: Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]] = map  # set by the launcher before the fit
    folds: int = 0  # from 2 on the estimator is cross-validated, too: `estimator/cv_accuracy` and `_sd`

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Raise RunError for data that can't be fitted, before anything is; `splits` hold `X`, `y` and the roles."""
        return

    @abstractmethod
    def fit(self, X: Any, y: Any = None, **roles: Any) -> Any:
        """`roles`: `treatment`, `instrument`, `weights`, `groups` where the data has them."""

    def scores(self, facts: Mapping[str, Any], X: np.ndarray, y: np.ndarray, **roles: np.ndarray) -> dict[str, float]:
        """The figures on held-out examples: those of the predictions, unless the estimator says otherwise."""
        from raycipe.framework.scores import scores

        return scores(self, facts, X, y)

    def evidence(self) -> Measured:
        """What the fit found beside predictions: numbers, figures, tables; asked for once, after the fit."""
        return Measured()
