"""Shared by the priors: densities of coefficients over a basis, and the scale of the outcome."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from raycipe.framework.contracts import Density

Array = np.ndarray
WEAK = 10.0  # standard deviations of y: a prior that says nothing but the scale


def scale_of(y: Array, words: str | float) -> float:
    """`auto`, ten standard deviations of y, or the number."""
    return WEAK * float(y.std()) if words == "auto" else float(words)


class Plain(Density):
    """Coefficients that are effects themselves: the basis is the covariates (a column of ones, indicators)."""

    def __init__(self, size: int) -> None:
        self.size = size

    def basis(self, covariates: Array) -> Array:
        return covariates


class Normal(Plain):
    """Independent N(mean, sd^2)."""

    def __init__(self, size: int, mean: float, sd: float) -> None:
        super().__init__(size)
        self.mean, self.sd = mean, sd

    @property
    def normal(self) -> tuple[Array, Array]:
        return np.full(self.size, self.mean), np.full(self.size, self.sd)

    def log_density(self, beta: Array) -> Array:
        found: Array = -0.5 * (((beta - self.mean) / self.sd) ** 2).sum(axis=-1)
        return found

    def gradient(self, beta: Array) -> Array:
        return (self.mean - beta) / self.sd**2

    def precision(self, beta: Array) -> Array:
        return np.full(self.size, self.sd**-2)


class DoubleExponential(Plain):
    """Independent Laplace(mean, scale)."""

    def __init__(self, size: int, mean: float, scale: float) -> None:
        super().__init__(size)
        self.mean, self.scale = mean, scale

    def log_density(self, beta: Array) -> Array:
        found: Array = -np.abs(beta - self.mean).sum(axis=-1) / self.scale
        return found

    def gradient(self, beta: Array) -> Array:
        return -np.sign(beta - self.mean) / self.scale

    def precision(self, beta: Array) -> Array:
        return np.zeros(self.size)


class StudentT(Plain):
    """Independent t of df degrees of freedom around mean."""

    def __init__(self, size: int, mean: float, scale: float, df: float) -> None:
        super().__init__(size)
        self.mean, self.scale, self.df = mean, scale, df

    def log_density(self, beta: Array) -> Array:
        z = (beta - self.mean) / self.scale
        found: Array = -0.5 * (self.df + 1) * np.log1p(z**2 / self.df).sum(axis=-1)
        return found

    def gradient(self, beta: Array) -> Array:
        z = (beta - self.mean) / self.scale
        return -(self.df + 1) * z / (self.df + z**2) / self.scale

    def precision(self, beta: Array) -> Array:
        z = (beta - self.mean) / self.scale
        exact = (self.df + 1) * (self.df - z**2) / (self.df + z**2) ** 2 / self.scale**2
        return np.maximum(exact, 0.0)


class Whitened(Density):
    """Functions offset(x) + basis(x) beta with independent standard normal coefficients."""

    def __init__(self, size: int, basis: Callable[[Array], Array], offset: float = 0.0) -> None:
        self.size, self._basis, self._offset = size, basis, offset

    def basis(self, covariates: Array) -> Array:
        return self._basis(covariates)

    def offset(self, covariates: Array) -> Array:
        return np.full(len(covariates), self._offset)

    @property
    def normal(self) -> tuple[Array, Array]:
        return np.zeros(self.size), np.ones(self.size)

    def log_density(self, beta: Array) -> Array:
        found: Array = -0.5 * (beta**2).sum(axis=-1)
        return found

    def gradient(self, beta: Array) -> Array:
        return -beta

    def precision(self, beta: Array) -> Array:
        return np.ones(self.size)


class SpikeSlab(Plain):
    """Mass w0 at 0, else N(0, sd^2). The density is the slab's alone, normalized: only `grid` knows the mass."""

    def __init__(self, w0: float, sd: float) -> None:
        super().__init__(1)
        self.w0, self.slab = w0, Normal(1, 0.0, sd)

    def log_density(self, beta: Array) -> Array:
        return self.slab.log_density(beta) - np.log(self.slab.sd * np.sqrt(2 * np.pi)) + np.log1p(-self.w0)

    def gradient(self, beta: Array) -> Array:
        return self.slab.gradient(beta)

    def precision(self, beta: Array) -> Array:
        return self.slab.precision(beta)
