"""Shared by the solvers: what they ask of a system, its largest singular value, and the record of their way."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from raycipe.framework.contracts import System
from raycipe.framework.errors import RunError
from raycipe.framework.streams import torch_generator


def require_square(system: System, type_: str) -> None:
    """Raise RunError for a tall system."""
    if not system.is_square:
        message = f"`rows: all` makes a least-squares problem, and ihvp/{type_} solves square systems alone"
        raise RunError("recipe", message, "take p_lissa, lsmr or direct, or `rows: selected`", "editor.ihvp")


def largest_singular_value(system: System, b: Tensor, iterations: int, seed: int) -> float:
    """sigma_max(A) by power iteration on A'A, from below; two products an iteration, one where A is symmetric.

    For a symmetric matrix |A x| / |x| is what the iteration with A'A would give after half as many products.
    """
    x = torch.randn(system.columns, generator=torch_generator(seed, "power"), dtype=torch.float64).to(b)
    x = x / norm(x)
    sigma = 0.0
    for _ in range(iterations):
        image = system.product(x)
        sigma = norm(image)
        if sigma == 0 or not math.isfinite(sigma):
            return sigma
        x = image if system.is_square else system.transposed(image)
        x = x / norm(x)
    return sigma


def norm(x: Tensor) -> float:
    """Euclidean, summed in float64."""
    return float(x.double().norm())


def dot(x: Tensor, y: Tensor) -> float:
    return float(x.double() @ y.double())


class Track:
    """The relative residual |A x - b| / |b| as far as a solver knows it, after so many products with the curvature."""

    def __init__(self, system: System, b: Tensor) -> None:
        self.system, self.scale, self.before = system, norm(b) or 1.0, system.products
        self.rows: list[dict[str, float]] = []

    @property
    def products(self) -> int:
        return self.system.products - self.before

    def add(self, iteration: int, residual: Tensor) -> float:
        found = norm(residual) / self.scale
        self.rows.append({"iteration": iteration, "products": self.products, "residual": found})
        return found
