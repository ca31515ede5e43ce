"""Magnitude of finite metric spaces: weightings, potentials and scales. Plain tensors, double precision.

T. Leinster, The Magnitude of Metric Spaces, 2013; M. Meckes, Magnitude, Diversity, Capacities, and Dimensions, 2015.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Metric = Literal["euclidean", "manhattan"]
Rule = Literal["median", "mean_nn", "convergence", "fixed"]
SAME = 1e-12  # points this near, beside the median distance, are one
TOLERANCE = 1e-6  # of the residual |Z w - 1|


class Weighting(NamedTuple):
    """The solution w of Z w = 1 and what else the factorization tells.

    `inverse_diagonal` is (Z^-1)_ii, where it was asked for; `residual` is max |Z w - 1|, `jitter` what the diagonal
    needed.
    """

    weights: Tensor
    residual: float
    jitter: float
    inverse_diagonal: Tensor | None

    @property
    def magnitude(self) -> float:
        return float(self.weights.sum())


def distances(a: Tensor, b: Tensor, metric: Metric = "euclidean") -> Tensor:
    """(n, d), (m, d) -> (n, m), by differences: the expanded square loses the small ones."""
    p = 2.0 if metric == "euclidean" else 1.0
    return torch.cdist(a, b, p=p, compute_mode="donot_use_mm_for_euclid_dist")


def merged(between: Tensor) -> Tensor:
    """For each point of a distance matrix (n, n) the first point that lies where it does, (n,)."""
    limit = SAME * float(median_distance(between))
    return (between <= limit).double().argmax(dim=1)


def median_distance(between: Tensor) -> Tensor:
    """The median of the distances between different points."""
    n = len(between)
    rows, columns = torch.triu_indices(n, n, 1, device=between.device)
    return between[rows, columns].median()


def weighting(between: Tensor, t: float, with_inverse: bool = False) -> Weighting:
    """The weighting of the space with these distances (n, n) at scale t, by Cholesky and one refinement.

    Where Z = exp(-t d) is not positive definite in floating point, the least jitter in 1e-12, 1e-11, ... 1e-6 that
    makes it so is added to the diagonal; beyond it, eigenvalues below 1e-12 of the largest are left out.
    """
    z = torch.exp(-t * between)
    ones = torch.ones(len(z), 1, dtype=z.dtype, device=z.device)
    for jitter in (0.0, *(10.0**-k for k in range(12, 5, -1))):
        factor, failed = torch.linalg.cholesky_ex(z + jitter * torch.eye(len(z)).to(z) if jitter else z)
        if not failed:
            w = torch.cholesky_solve(ones, factor)
            w = w + torch.cholesky_solve(ones - z @ w, factor)
            inverse = torch.cholesky_inverse(factor).diagonal() if with_inverse else None
            return Weighting(w[:, 0], float((z @ w - 1).abs().max()), jitter, inverse)
    values, vectors = torch.linalg.eigh(z)
    kept = values > 1e-12 * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    w = vectors @ ((vectors.T @ ones) / values[:, None])
    inverse = (vectors**2 / values).sum(dim=1) if with_inverse else None
    return Weighting(w[:, 0], float((z @ w - 1).abs().max()), math.inf, inverse)


def potential(to_points: Tensor, t: float, weights: Tensor) -> Tensor:
    """h(x) = sum_i w_i exp(-t d(x, a_i)) for rows of distances (m, n): how well the set represents each x; (m,)."""
    return torch.exp(-t * to_points) @ weights


def left_out(found: Weighting) -> Tensor:
    """The potential of each point of a space with respect to all others, (n,): 1 - w_i / (Z^-1)_ii."""
    assert found.inverse_diagonal is not None  # asked for
    return 1 - found.weights / found.inverse_diagonal


def scale_of(between: Tensor, rule: Rule, factor: float) -> float:
    """The scale t: factor / median distance, factor / mean nearest-neighbour distance, or factor itself (fixed).

    convergence: the t at which the magnitude is the share `factor` of the number of points.
    """
    if rule == "fixed":
        return factor
    if rule == "median":
        return factor / float(median_distance(between))
    if rule == "mean_nn":
        n = len(between)
        apart = between + torch.diag(torch.full((n,), math.inf, dtype=between.dtype, device=between.device))
        return factor / float(apart.min(dim=1).values.mean())
    return _converged(between, factor)


def _converged(between: Tensor, share: float) -> float:
    """By bisection on log t; the magnitude grows with t there."""
    middle = 1 / float(median_distance(between))
    low, high = math.log(middle * 1e-4), math.log(middle)
    while weighting(between, math.exp(high)).magnitude < share * len(between):
        high += 1
    for _ in range(40):
        t = (low + high) / 2
        if weighting(between, math.exp(t)).magnitude < share * len(between):
            low = t
        else:
            high = t
    return math.exp(high)
