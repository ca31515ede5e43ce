"""Centerpoints of points in the plane, and the mixture of few of the points that lies there.

A centerpoint c of k points has at least k / 3 of them in every closed half-plane that holds it (Rado, 1946). If more
than 2 k / 3 of the points lie in a convex set, c does, too: else a half-plane with c would miss the set and hold k / 3
points.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

EXACT = 200  # points up to which every direction that matters is looked at
RANDOM, EVEN = 2000, 360  # directions beyond
JITTER = 1e-9  # tells coinciding points apart


class Center(NamedTuple):
    """The point, how deep it lies (points in the poorest half-plane that holds it), and its mixture of the points."""

    point: np.ndarray  # (2,)
    depth: int
    weights: np.ndarray  # (k,), sum 1, few not 0


def centerpoint(points: np.ndarray, generator: np.random.Generator, downward: bool = False) -> Center:
    """The deepest point of points (k, 2), as a mixture of at most three of them.

    `downward` is for sets that hold with a point all smaller ones: then half-planes u · z >= u · c with u >= 0 alone
    matter, and half of the points, not a third, can be asked for in each.
    """
    k = len(points)
    z = points + JITTER * generator.uniform(-1, 1, points.shape)
    u = directions(z, generator, downward)
    rank = math.ceil(k / (2 if downward else 3))
    limits = -np.sort(-(z @ u.T), axis=0)[rank - 1]  # the rank-th largest u · z: u · c must not be above
    if downward:
        mixed = _solve(np.append(np.zeros(k), -1.0), np.column_stack([u @ z.T, np.ones(len(u))]), limits, k)
        center = mixed[:k] @ z
    else:
        center = _solve(np.array([0.0, 0.0, -1.0]), np.column_stack([u, np.ones(len(u))]), limits, 0)[:2]
    weights = mixture(z, center)
    return Center(weights @ points, depth(z, weights @ z, downward), weights)


def _solve(cost: np.ndarray, above: np.ndarray, limits: np.ndarray, mixed: int) -> np.ndarray:
    """The point (or, with `mixed`, the weights) of largest common slack, the last variable."""
    bounds = [(0, None)] * mixed + [(None, None)] * (len(cost) - 1 - mixed) + [(None, 1.0)]
    equal = np.append(np.ones(mixed), 0.0)[None, :] if mixed else None
    found = linprog(cost, above, limits, equal, [1.0] if mixed else None, bounds, method="highs")
    if found.status != 0:
        raise RuntimeError(f"the linear program of a centerpoint failed: {found.message}")
    return np.asarray(found.x)


def directions(z: np.ndarray, generator: np.random.Generator, downward: bool) -> np.ndarray:
    """Unit vectors (n, 2) across all pairs of points, both ways; a sample of all directions for many points."""
    if len(z) <= EXACT:
        i, j = np.triu_indices(len(z), 1)
        d = z[i] - z[j]
        u = np.column_stack([-d[:, 1], d[:, 0]])
    else:
        angles = np.concatenate([2 * np.pi * np.arange(EVEN) / EVEN, generator.uniform(0, 2 * np.pi, RANDOM)])
        u = np.column_stack([np.cos(angles), np.sin(angles)])
    u = np.concatenate([u, -u, np.eye(2), -np.eye(2)])
    if downward:
        u = u[(u >= 0).all(axis=1)]
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def mixture(z: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Weights (k,) of at most three points whose mean is the center: a basic solution (Carathéodory).

    A center that rounding has put beside the hull is taken to the nearest of its points.
    """
    equal = np.vstack([z.T, np.ones(len(z))])
    found = linprog(np.zeros(len(z)), A_eq=equal, b_eq=[*center, 1.0], method="highs-ds")
    if found.status == 0:
        weights = np.clip(found.x, 0, None)
        return weights / weights.sum()
    return np.eye(len(z))[int(np.linalg.norm(z - center, axis=1).argmin())]


def depth(z: np.ndarray, center: np.ndarray, downward: bool = False) -> int:
    """Tukey's depth: the fewest points in a closed half-plane with the center on its rim; with `downward` u >= 0."""
    d = z - center
    angles = np.arctan2(d[:, 1], d[:, 0])
    turns = np.concatenate([angles + np.pi / 2, angles - np.pi / 2])
    both = np.concatenate([turns - 1e-7, turns + 1e-7, [0.0, np.pi / 2]])
    u = np.column_stack([np.cos(both), np.sin(both)])
    if downward:
        u = np.abs(u)[(u >= -1e-12).all(axis=1)]
    return int((d @ u.T >= -1e-7 * np.linalg.norm(d, axis=1)[:, None] - 4 * JITTER).sum(axis=0).min())
