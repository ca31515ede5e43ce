"""Shared by the causal losses: what a row contributes as a function of its effect g, and the pseudo-outcomes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from raycipe.framework.contracts import RowLoss

Array = np.ndarray


class Quadratic(RowLoss):
    """w_i (phi_i - g_i)^2 / 2, from the pair (w, w phi): phi itself may be the quotient of two small numbers.

    The half makes omega one over a variance. (n,) each.
    """

    def __init__(self, w: Array, w_phi: Array) -> None:
        self.w, self.w_phi = w, w_phi

    def value(self, g: Array) -> Array:
        """Up to a constant, which would need phi."""
        return g * (0.5 * self.w * g - self.w_phi)

    def slope(self, g: Array) -> Array:
        return self.w * g - self.w_phi

    def curvature(self, g: Array) -> Array:
        return self.w

    def weighted(self, weights: Array) -> Quadratic:
        return Quadratic(self.w * weights, self.w_phi * weights)

    def rows(self, chosen: Array) -> Quadratic:
        return Quadratic(self.w[chosen], self.w_phi[chosen])


class Huber(RowLoss):
    """w_i h(phi_i - g_i), h(r) = r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2)."""

    def __init__(self, phi: Array, delta: float, w: Array | None = None) -> None:
        self.phi, self.delta = phi, delta
        self.w = np.ones(len(phi)) if w is None else w

    def value(self, g: Array) -> Array:
        size = np.abs(self.phi - g)
        inner = np.minimum(size, self.delta)
        found: Array = self.w * inner * (size - 0.5 * inner)
        return found

    def slope(self, g: Array) -> Array:
        return -self.w * np.clip(self.phi - g, -self.delta, self.delta)

    def curvature(self, g: Array) -> Array:
        found: Array = self.w * (np.abs(self.phi - g) <= self.delta)
        return found

    def weighted(self, weights: Array) -> Huber:
        return Huber(self.phi, self.delta, self.w * weights)

    def rows(self, chosen: Array) -> Huber:
        return Huber(self.phi[chosen], self.delta, self.w[chosen])


class Ratio(RowLoss):
    """phi0_i exp(g_i) - phi1_i g_i, whose minimum is g = log(mean phi1 / mean phi0).

    A negative phi0 makes a row's loss concave: Newton's method is given max(phi0, 0) exp(g) in its place.
    """

    def __init__(self, phi0: Array, phi1: Array) -> None:
        self.phi0, self.phi1 = phi0, phi1

    def value(self, g: Array) -> Array:
        return self.phi0 * np.exp(g) - self.phi1 * g

    def slope(self, g: Array) -> Array:
        return self.phi0 * np.exp(g) - self.phi1

    def curvature(self, g: Array) -> Array:
        found: Array = np.maximum(self.phi0, 0.0) * np.exp(g)
        return found

    def weighted(self, weights: Array) -> Ratio:
        return Ratio(self.phi0 * weights, self.phi1 * weights)

    def rows(self, chosen: Array) -> Ratio:
        return Ratio(self.phi0[chosen], self.phi1[chosen])


def arm_outcome(y: Array, chosen: Array, probability: Array, mean: Array, normalize: bool = False) -> Array:
    """The doubly robust pseudo-outcome m + 1{chosen} (y - m) / p of one arm, (n,).

    With `normalize` the weights 1{chosen} / p are divided by their mean.
    """
    weight = chosen / probability
    if normalize:
        weight = weight / weight.mean()
    return mean + weight * (y - mean)


def doubly_robust(y: Array, a: Array, eta: Mapping[str, Array], normalize: bool = False) -> Array:
    """m1 - m0 + A (Y - m1) / e - (1 - A) (Y - m0) / (1 - e), (n,)."""
    treated = arm_outcome(y, a, eta["e"], eta["m1"], normalize)
    return treated - arm_outcome(y, 1 - a, 1 - eta["e"], eta["m0"], normalize)


def residuals(y: Array, a: Array, eta: Mapping[str, Array]) -> tuple[Array, Array]:
    """Y - E[Y|x] and A - E[A|x], (n,) each; E[Y|x] = e m1 + (1 - e) m0 for a binary treatment."""
    if "a" in eta:
        return y - eta["m"], a - eta["a"]
    return y - (eta["e"] * eta["m1"] + (1 - eta["e"]) * eta["m0"]), a - eta["e"]
