"""The parts of a causal estimator: what is estimated, by which loss, under which prior, computed and calibrated how.

Everything is a problem of one form: coefficients beta (p,), effects g = offset + basis @ beta (n,), a loss a row in g,
a prior density of beta, and a learning rate omega:

    log posterior(beta) = log prior(beta) - omega * sum_i loss_i(g_i) + constant

A scalar estimand has one coefficient and a basis of ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from raycipe.framework.contracts.component import Component

Array = np.ndarray
Design = Literal["binary", "level", "continuous", "instrument", "dose"]
FanOut = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]  # a map, perhaps at the same time


@dataclass(frozen=True)
class Sample:
    """The rows of a causal data set, float64. `treatment` and `instrument` are 0/1 where they are binary.

    `truth` of simulated data has P(A=1 | x), where that is known, then E[Y(0) | x] and E[Y(1) | x]: (n, 3) or (n, 2).
    """

    X: Array  # (n, d)
    y: Array  # (n,)
    treatment: Array  # (n,)
    instrument: Array | None = None
    weights: Array | None = None  # mean 1
    groups: Array | None = None  # clusters, which are never divided
    truth: Array | None = None

    @property
    def true_effect(self) -> Array | None:
        """E[Y(1) - Y(0) | x] of every row, where it is known."""
        return None if self.truth is None else self.truth[:, -1] - self.truth[:, -2]

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, chosen: Array) -> Sample:
        """The chosen rows, by number or mask."""
        there = {name: values for name, values in vars(self).items() if values is not None}
        return Sample(**{name: values[chosen] for name, values in there.items()})


@dataclass(frozen=True)
class Nuisances:
    """Cross-fitted first-stage values of every row, and of further rows.

    `values`, (n,) each, by design: binary `e` P(A=1|x), `m0`, `m1` E[Y|x,A=a]; level `e` P(A=a|x), `m` E[Y|x,A=a];
    continuous `a` E[A|x], `m` E[Y|x]; instrument `z` P(Z=1|x), `y0`, `y1` E[Y|x,Z=z], `a0`, `a1` E[A|x,Z=z];
    dose `m` E[Y|x_i,a_i], `m_bar` its mean over all x at a_i, `ratio` of the densities f(a_i) / f(a_i|x_i).
    """

    values: Mapping[str, Array]
    at: Callable[[Array], Mapping[str, Array]] | None = None  # the same at further X, averaged over the folds' models
    scores: Sequence[Mapping[str, Any]] = ()  # one row a fold and model


class RowLoss(ABC):
    """A loss a row as a function of the row's effect g, (n,) in and out; convex in g where its curvature says so."""

    @abstractmethod
    def value(self, g: Array) -> Array: ...

    @abstractmethod
    def slope(self, g: Array) -> Array:
        """d value / d g."""

    @abstractmethod
    def curvature(self, g: Array) -> Array:
        """d slope / d g, or a bound that is never negative, for Newton's method."""

    @abstractmethod
    def weighted(self, weights: Array) -> RowLoss:
        """The same with each row's loss multiplied."""

    @abstractmethod
    def rows(self, chosen: Array) -> RowLoss: ...


class Density(ABC):
    """A prior bound to the data: the basis that the effect is written in, and the density of its coefficients."""

    size: int  # p

    @abstractmethod
    def basis(self, covariates: Array) -> Array:
        """(n, d) → (n, p)."""

    def offset(self, covariates: Array) -> Array:
        """The prior mean that no coefficient carries, (n,)."""
        return np.zeros(len(covariates))

    @property
    def normal(self) -> tuple[Array, Array] | None:
        """Mean and standard deviation (p,) of independent normal coefficients; None for another density."""
        return None

    @abstractmethod
    def log_density(self, beta: Array) -> Array:
        """(..., p) → (...), up to a constant."""

    @abstractmethod
    def gradient(self, beta: Array) -> Array:
        """Of the log density, (p,)."""

    @abstractmethod
    def precision(self, beta: Array) -> Array:
        """Minus the second derivatives of the log density, (p,); at least 0."""


@dataclass(frozen=True)
class GeneralizedPosterior:
    """The problem that a posterior is computed of (see the module)."""

    loss: RowLoss
    basis: Array  # (n, p)
    offset: Array  # (n,)
    density: Density
    omega: float = 1.0

    def g(self, beta: Array) -> Array:
        found: Array = self.offset + self.basis @ beta
        return found

    def log_density(self, beta: Array) -> float:
        return float(self.density.log_density(beta) - self.omega * self.loss.value(self.g(beta)).sum())

    def gradient(self, beta: Array) -> Array:
        """(p,)."""
        slope: Array = self.density.gradient(beta) - self.omega * self.basis.T @ self.loss.slope(self.g(beta))
        return slope

    def precision(self, beta: Array) -> Array:
        """Minus the Hessian, (p, p)."""
        weighted = self.basis * self.loss.curvature(self.g(beta))[:, None]
        found: Array = self.omega * self.basis.T @ weighted + np.diag(self.density.precision(beta))
        return found

    def at(self, omega: float) -> GeneralizedPosterior:
        return replace(self, omega=omega)


@dataclass(frozen=True)
class Solution:
    """A posterior of beta: draws (draws, p), and mean (p,) and covariance (p, p) where it is normal."""

    draws: Array
    mean: Array
    covariance: Array | None = None
    diagnostics: Mapping[str, float] = field(default_factory=dict)  # r_hat, ess_bulk, ess_tail, divergences, ...


@dataclass(frozen=True)
class Calibrated:
    """A learning rate, and how it came."""

    omega: float
    how: str
    warning: str = ""


@dataclass(frozen=True)
class Evidence:
    """What a calibration may look at."""

    problem: GeneralizedPosterior
    is_function: bool
    orthogonal: bool
    groups: Array | None
    seed: int
    level: float
    variance: float  # of y
    refit: Callable[[Array, bool], RowLoss]  # row weights (n,), whether the nuisances are fitted again


class Estimand(Component, ABC):
    """The quantity that a causal estimator targets."""

    design: ClassVar[Design] = "binary"
    is_function: ClassVar[bool] = False  # of covariates: takes a prior over functions
    losses: ClassVar[tuple[str, ...]] = ()  # the types that identify it
    words: ClassVar[str] = ""
    truth: float | None = None  # the true value, where it is known

    @abstractmethod
    def row_loss(self, loss: CausalLoss, sample: Sample, nuisances: Mapping[str, Array]) -> RowLoss:
        """The loss of every row in the estimand's value there."""

    def covariates(self, sample: Sample) -> Array:
        """(n, d): what the effect is a function of; one column of ones for a scalar."""
        return np.ones((len(sample), 1))

    def at(self, X: Array) -> Array:
        """The covariates of further rows."""
        return np.ones((len(X), 1))

    def labels(self) -> list[str]:
        """Names of the coefficients where each is an effect of its own; empty otherwise."""
        return []


class CausalLoss(Component, ABC):
    """How the effect is identified: a loss a row, with nuisances plugged in."""

    is_orthogonal: bool = False  # small errors of the nuisances do not matter
    is_quadratic: ClassVar[bool] = True
    joins_arms: ClassVar[bool] = False  # two functions of x, one an arm, joined by the propensity
    words: ClassVar[str] = ""  # what is estimated, if it is not the mean effect
    clip: float = 0.0  # probabilities are kept within [clip, 1 - clip]

    @abstractmethod
    def row_loss(self, sample: Sample, nuisances: Mapping[str, Array]) -> RowLoss:
        """Of a binary treatment's effect."""


class Nuisance(Component, ABC):
    """First-stage models, cross-fitted."""

    folds: int = 1  # parts of the data; 1 fits and predicts on the same rows
    stratify: bool = True  # each part has its share of every treatment (and instrument)

    def check(self, design: Design, facts: Mapping[str, Any]) -> None:
        """Raise RunError for models or data that can't serve the design."""

    @abstractmethod
    def fit(
        self, sample: Sample, design: Design, folds: Array, seed: int, level: float = 1.0, fan_out: FanOut = map
    ) -> Nuisances:
        """`folds` (n,) numbers the part in which each row is held out; `level` is the treatment of design `level`.

        Parts that do not need each other may go through `fan_out`.
        """


class Prior(Component, ABC):
    """A prior over the effect."""

    is_function: ClassVar[bool] = False
    is_normal: ClassVar[bool] = True
    has_mass: ClassVar[bool] = False  # a point has a probability of its own, which no density tells

    @abstractmethod
    def bind(self, covariates: Array, y: Array, seed: int) -> Density:
        """The density over coefficients; what is `auto` is chosen from the covariates (n, d) and the scale of y."""


class Posterior(Component, ABC):
    """How a generalized posterior is computed."""

    def misfit(self, loss: CausalLoss, prior: Prior, is_scalar: bool) -> str | None:
        """Why it can't compute such a posterior, and what could; None if it can."""
        return f"it does not see the mass of {prior.type_name}: take grid" if prior.has_mass else None

    @abstractmethod
    def solve(self, problem: GeneralizedPosterior, draws: int, seed: int) -> Solution:
        """Raises ValueError for a problem that it can't solve, naming those that can."""


class Calibration(Component, ABC):
    """Chooses the learning rate so that credible sets cover as often as they say."""

    shape: Literal["plain", "robust"] = "plain"  # robust: a sandwich covariance of the coefficients, too

    @abstractmethod
    def rate(self, evidence: Evidence) -> Calibrated:
        """Raises ValueError where it has no answer."""
