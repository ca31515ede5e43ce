"""Estimators and what serves them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raycipe.framework.contracts.component import Component


class Estimator(Component, ABC):
    """scikit-learn's contract: parameters only stored, `fit` returns self, fitted attributes end in `_`, clonable.

    A component also derives from `sklearn.base.BaseEstimator`, which supplies `get_params` and `set_params`.
    """

    @abstractmethod
    def fit(self, X: Any, y: Any = None, **roles: Any) -> Any:
        """`roles`: `treatment`, `instrument`, `weights`, `groups` where the data has them."""


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
