"""The plane of (FP, FN): clipping, slack, and the exact test whether promises can be boosted.

    symbol      meaning                                                          shape
    z           (FP, FN), joint masses                                           (2,)
    p           label mass of the distribution                                   ()
    S_p         segment from (1 - p, 0) to (0, p): what a coin that knows p does
    F_p(z)      z1 / (1 - p) + z2 / p - 1 = fpr + fnr - 1; 0 exactly on S_p       ()
    R_p         [0, 1 - p] x [0, p]: pairs that can occur at label mass p
    P_k         label masses at which piece k meets R_p                          interval

Derived from the abstract of the paper that introduces Z-learners (2026); in agreement with M. Bressan, N. Brukhim,
N. Cesa-Bianchi, E. Esposito, Y. Mansour, S. Moran, M. Thiessen, Of Dice and Games, COLT 2025.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

Interval = tuple[float, float]
TOUCH = 1e-9  # a gap below counts as none
SHIFT = 1e-6  # beside the ends of a piece's feasible masses, where its gap jumps
COIN_MASSES = 99
ROUNDING = 1e-13  # of a root that is 0 or 1
CHUNK = 4_000_000  # numbers held at a time

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


class Boostability(NamedTuple):
    """The verdict on a set. `gamma` > 0: boostable, at label mass `p_star` every hypothesis has |tpr - fpr| >= gamma.

    `allowed` are the label masses at which a coin can't keep the promise, `infeasible` those at which nobody can.
    `coin` lists (p, FP, FN) of the coin that keeps a trivial promise.
    """

    gamma: float
    p_star: float
    allowed: list[Interval]
    infeasible: list[Interval]
    killed_by: list[list[Interval]]  # of each piece
    is_boundary: bool
    coin: list[tuple[float, float, float]]

    @property
    def is_boostable(self) -> bool:
        return self.gamma >= TOUCH

    @property
    def verdict(self) -> str:
        if self.is_boostable:
            return "boostable"
        return "trivial (boundary case)" if self.is_boundary else "trivial"


# ---------------------------------------------------------------------------------------------- polygons


def clip(polygon: np.ndarray, normal: Sequence[float], bound: float) -> np.ndarray:
    """The part of a convex polygon (k, 2) with normal · z <= bound; (0, 2) if there is none."""
    if len(polygon) == 0:
        return polygon
    excess = polygon @ np.asarray(normal, dtype=float) - bound
    excess[np.abs(excess) < 1e-15] = 0.0
    found = []
    for i in range(len(polygon)):
        j = (i + 1) % len(polygon)
        if excess[i] <= 0:
            found.append(polygon[i])
        if excess[i] * excess[j] < 0:
            share = excess[i] / (excess[i] - excess[j])
            found.append(polygon[i] + share * (polygon[j] - polygon[i]))
    return without_doubles(np.array(found).reshape(-1, 2))


def without_doubles(polygon: np.ndarray) -> np.ndarray:
    """Neighbouring corners that coincide, once."""
    if len(polygon) < 2:
        return polygon
    keep = np.abs(polygon - np.roll(polygon, 1, axis=0)).max(axis=1) > 1e-14
    return polygon[keep] if keep.any() else polygon[:1]


def in_square(polygon: np.ndarray) -> np.ndarray:
    """The part inside the unit square."""
    for normal, bound in (((-1, 0), 0.0), ((0, -1), 0.0), ((1, 0), 1.0), ((0, 1), 1.0)):
        polygon = clip(polygon, normal, bound)
    return polygon


def non_empty(pieces: list[np.ndarray], argument: str) -> list[np.ndarray]:
    """The pieces that have a point. Raises ValueError that begins with `argument` if none has."""
    found = [piece for piece in pieces if len(piece)]
    if not found:
        raise ValueError(f"{argument}: the set is empty: no pair in [0, 1] x [0, 1] is in it")
    return found


def hull(points: np.ndarray) -> np.ndarray:
    """Corners of the convex hull (k, 2), counter-clockwise; one or two for points that coincide or lie on a line."""
    unique = np.unique(np.asarray(points, dtype=float), axis=0)
    if len(unique) <= 2:
        return unique
    chains = []
    for order in (unique, unique[::-1]):
        chain: list[np.ndarray] = []
        for point in order:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 1e-15:
                chain.pop()
            chain.append(point)
        chains.append(chain[:-1])
    return np.array(chains[0] + chains[1])


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def slack(pieces: Iterable[np.ndarray], z: np.ndarray) -> np.ndarray:
    """How far inside the set each point of z (n, 2) lies, (n,); negative outside.

    The distance to the nearest line that bounds a piece, the largest over pieces. Sides on the rim of the unit square
    bound nothing, since no pair lies beyond them.
    """
    return np.max([_slack(piece, np.atleast_2d(np.asarray(z, dtype=float))) for piece in pieces], axis=0)


def _slack(piece: np.ndarray, z: np.ndarray) -> np.ndarray:
    if len(piece) < 3:
        return -_distance(piece, z)
    found = np.full(len(z), np.inf)
    for a, b in zip(piece, np.roll(piece, -1, axis=0), strict=True):
        on_rim = any(abs(a[i] - b[i]) < 1e-12 and min(a[i], 1 - a[i]) < 1e-12 for i in (0, 1))
        if not on_rim:
            along = (b - a) / np.linalg.norm(b - a)
            found = np.minimum(found, along[0] * (z[:, 1] - a[1]) - along[1] * (z[:, 0] - a[0]))
    return found


def _distance(piece: np.ndarray, z: np.ndarray) -> np.ndarray:
    a, b = piece[0], piece[-1]
    length = float((b - a) @ (b - a))
    share = np.clip((z - a) @ (b - a) / length, 0, 1) if length else np.zeros(len(z))
    return np.linalg.norm(z - a - share[:, None] * (b - a), axis=1)


# ---------------------------------------------------------------------------------------------- the test


def coin_gap(z: np.ndarray, p: np.ndarray | float) -> np.ndarray:
    """F_p(z) = z1 / (1 - p) + z2 / p - 1."""
    z = np.asarray(z, dtype=float)
    return z[..., 0] / (1 - p) + z[..., 1] / p - 1


def masses_on(z: np.ndarray) -> np.ndarray:
    """The label masses p in (0, 1) whose S_p holds one of the points z (n, 2): roots of p² + p (z1 - z2 - 1) + z2."""
    half = (1 + z[:, 1] - z[:, 0]) / 2
    root = half**2 - z[:, 1]
    root = np.where(np.abs(root) < 1e-15, 0.0, root)
    there, spread = half[root >= 0], np.sqrt(root[root >= 0])
    found = np.concatenate([there - spread, there + spread])
    return np.unique(found[(found > ROUNDING) & (found < 1 - ROUNDING)])


class _Piece:
    """A piece cut to z1 + z2 <= 1, which holds every R_p, and the corners that can be extreme for F_p."""

    def __init__(self, corners: np.ndarray) -> None:
        corners = hull(corners)
        self.low = float(corners[:, 1].min())
        self.high = float(1 - corners[:, 0].min())
        self.above = _staircase(corners, largest=True)
        self.below = _staircase(corners, largest=False)

    def is_feasible(self, p: np.ndarray) -> np.ndarray:
        return (p >= self.low) & (p <= self.high)

    def signed(self, p: np.ndarray) -> np.ndarray:
        """max(-max F_p, min F_p): the gap where it is positive, how deep S_p cuts where it is not."""
        largest = coin_gap(self.above[:, None, :], p).max(axis=0)
        least = coin_gap(self.below[:, None, :], p).min(axis=0)
        return np.maximum(-largest, least)

    def on_coin(self, p: float) -> np.ndarray:
        """A point of the piece on S_p, where both signs occur."""
        largest, least = coin_gap(self.above, p), coin_gap(self.below, p)
        a, b = self.above[largest.argmax()], self.below[least.argmin()]
        span = largest.max() - least.min()
        return a if span == 0 else a + (b - a) * max(0.0, largest.max()) / span


def _staircase(corners: np.ndarray, largest: bool) -> np.ndarray:
    """The corners that are extreme in some direction with positive components, in the order of the hull."""
    sign = 1.0 if largest else -1.0
    signed = sign * corners
    kept = [i for i, z in enumerate(signed) if not np.any(np.all(signed >= z, axis=1) & np.any(signed > z, axis=1))]
    return corners[kept][np.argsort(corners[kept][:, 0])]


def boostability(pieces: Sequence[np.ndarray]) -> Boostability:
    """Whether a union of convex polygons can be boosted, exactly: gamma = sup_p min_k gap_k(p), and where.

    Raises ValueError if no hypothesis can have such errors at any label mass.
    """
    cut = [clip(np.asarray(piece, dtype=float), (1, 1), 1.0) for piece in pieces]
    parts = [_Piece(piece) for piece in cut if len(piece)]
    if not any(part.high > 0 and part.low < 1 for part in parts):
        raise ValueError("holds no pair that can occur: FP + FN is above 1 everywhere, or a label never occurs")
    killed_by = [_killed(part) for part in parts]
    feasible = _union([(part.low, part.high) for part in parts])
    infeasible = _complement(feasible)
    allowed = _complement(_union([*infeasible, *(interval for each in killed_by for interval in each)]))
    candidates = _candidates(parts, allowed)
    gaps = _gap(parts, candidates)
    best = int(gaps.argmax())
    gamma = float(gaps[best])
    is_boundary = gamma < TOUCH and bool(gamma >= -TOUCH)
    coin = [] if gamma >= TOUCH else _coins(parts)
    p_star = float(candidates[best])
    return Boostability(max(0.0, gamma), p_star, allowed, infeasible, killed_by, is_boundary, coin)


def gaps_at(pieces: Sequence[np.ndarray], p: np.ndarray) -> np.ndarray:
    """gap_Z at each label mass p (n,); infinite where no piece is feasible."""
    cut = [clip(np.asarray(piece, dtype=float), (1, 1), 1.0) for piece in pieces]
    return np.maximum(0.0, _gap([_Piece(piece) for piece in cut if len(piece)], p, math.inf))


def _gap(parts: Sequence[_Piece], p: np.ndarray, nobody: float = -math.inf) -> np.ndarray:
    """min_k over the feasible pieces of the signed gap; `nobody` where none is."""
    found = np.full(len(p), np.inf)
    step = max(1, CHUNK // max(len(part.above) + len(part.below) for part in parts))
    for start in range(0, len(p), step):
        here = slice(start, start + step)
        for part in parts:
            found[here] = np.where(
                part.is_feasible(p[here]), np.minimum(found[here], part.signed(p[here])), found[here]
            )
    return np.where(np.isinf(found), nobody, found)


def _killed(part: _Piece) -> list[Interval]:
    """The label masses at which S_p meets the piece."""
    ends = np.array([max(part.low, 0.0), min(part.high, 1.0)])
    cuts = np.unique(np.concatenate([ends, masses_on(np.concatenate([part.above, part.below]))]))
    cuts = cuts[(cuts >= ends[0]) & (cuts <= ends[1])]
    middles = (cuts[:-1] + cuts[1:]) / 2
    meets = part.signed(middles) <= 0 if len(middles) else np.zeros(0, dtype=bool)
    found = [(float(a), float(b)) for a, b, m in zip(cuts[:-1], cuts[1:], meets, strict=True) if m]
    touching = [(float(p), float(p)) for p in cuts if 0 < p < 1 and part.signed(np.array([p]))[0] <= 0]
    return _union([*found, *touching])


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    found: list[Interval] = []
    for a, b in sorted(intervals):
        if found and a <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], b))
        elif a <= b:
            found.append((a, b))
    return found


def _complement(intervals: Sequence[Interval]) -> list[Interval]:
    """The open intervals of (0, 1) that are left."""
    found, at = [], 0.0
    for a, b in _union(intervals):
        if min(a, 1.0) > at:
            found.append((at, min(a, 1.0)))
        at = max(at, b)
    return [*found, (at, 1.0)] if at < 1 else found


def _candidates(parts: Sequence[_Piece], allowed: Sequence[Interval]) -> np.ndarray:
    """Every label mass at which the largest gap can lie: stationary points, crossings, and ends of feasible masses."""
    corners = np.concatenate([np.concatenate([part.above, part.below]) for part in parts])
    roots = np.sqrt(corners)
    sums = roots.sum(axis=1)
    stationary = roots[sums > 0, 1] / sums[sums > 0]
    pairs = np.concatenate([_neighbours(parts), _across(parts)])
    d = pairs[:, 0] - pairs[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        equal = d[:, 1] / (d[:, 1] - d[:, 0])  # F_u = F_v
    opposite = masses_on(pairs.mean(axis=1))  # F_u = -F_v
    ends = np.array([end + shift for part in parts for end in (part.low, part.high) for shift in (0.0, -SHIFT, SHIFT)])
    found = np.concatenate([stationary, equal, opposite, ends, masses_on(corners)])
    found = np.unique(found[np.isfinite(found) & (found > 0) & (found < 1)])
    if allowed:  # the gap is 0 elsewhere
        inside = np.zeros(len(found), dtype=bool)
        for a, b in allowed:
            inside |= (found >= a) & (found <= b)
        found = found[inside] if inside.any() else found
    return found


def _neighbours(parts: Sequence[_Piece]) -> np.ndarray:
    """Pairs of corners of one piece whose F_p can cross at its envelope: neighbours, and above with below."""
    found = []
    for part in parts:
        for chain in (part.above, part.below):
            found += [chain[i : i + 2] for i in range(len(chain) - 1)]
        found.append(np.array([part.above[0], part.below[0]]))
    return np.array(found).reshape(-1, 2, 2)


def _across(parts: Sequence[_Piece]) -> np.ndarray:
    """Pairs of corners of two pieces."""
    corners = [np.concatenate([part.above, part.below]) for part in parts]
    found = [np.zeros((0, 2, 2))]
    for i, first in enumerate(corners):
        if corners[i + 1 :]:
            rest = np.concatenate(corners[i + 1 :])
            left, right = np.repeat(first, len(rest), axis=0), np.tile(rest, (len(first), 1))
            found.append(np.stack([left, right], axis=1))
    return np.concatenate(found)


def _coins(parts: Sequence[_Piece]) -> list[tuple[float, float, float]]:
    """(p, FP, FN) of the coin that keeps the promise, for evenly spaced label masses at which it can be kept."""
    found = []
    for p in np.arange(1, COIN_MASSES + 1) / (COIN_MASSES + 1):
        there = [part for part in parts if part.is_feasible(np.array([p]))[0]]
        if there:
            cut = min(there, key=lambda part: float(part.signed(np.array([p]))[0]))
            z = cut.on_coin(float(p))
            found.append((float(p), float(z[0]), float(z[1])))
    return found
