"""Estimators and what serves them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

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


class Estimand(Component, ABC):
    """The quantity that an estimator targets."""

    @abstractmethod
    def value(self, **nuisances: np.ndarray) -> np.ndarray:
        """The estimand at given nuisance values, one entry per example or one scalar."""


class CausalLoss(Component, ABC):
    """A loss of the target parameter given nuisances, differentiable in the parameter."""

    @abstractmethod
    def loss(
        self, theta: np.ndarray, roles: Mapping[str, np.ndarray], nuisances: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """One value per example."""


class Nuisance(Component, ABC):
    """A first-stage model, cross-fitted: an outcome regression or a propensity."""

    @abstractmethod
    def fit_predict(self, train: Mapping[str, np.ndarray], test: Mapping[str, np.ndarray]) -> np.ndarray:
        """Fit on `train`, return one prediction per example of `test`."""


class Prior(Component, ABC):
    """A density over parameters."""

    @abstractmethod
    def log_density(self, theta: Tensor) -> Tensor:
        """(..., d) → (...)."""


class Posterior(Component, ABC):
    """How a generalized posterior is computed from a log density."""

    @abstractmethod
    def sample(
        self, log_density: Callable[[Tensor], Tensor], start: Tensor, draws: int, generator: torch.Generator
    ) -> Tensor:
        """(draws, d)."""


class Calibration(Component, ABC):
    """Chooses the posterior's learning rate or corrects its spread."""

    @abstractmethod
    def calibrate(self, draws: Tensor, scores: Tensor, hessian: Tensor) -> Tensor:
        """Corrected draws (draws, d) from per-example scores (n, d) and the mean Hessian (d, d)."""


class WeakLearner(Component, ABC):
    """A learner that is fitted to weighted examples."""

    @abstractmethod
    def fit(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """A function X → labels in {-1, +1}."""


class Vote(Component, ABC):
    """Combines the predictions of many learners into one."""

    @abstractmethod
    def combine(self, predictions: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """(learners, examples) and (learners,) → (examples,)."""
