"""The exact test of promises: closed forms, brute force, and linear programs over all hypotheses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from raycipe.components.z_sets import _geometry as geometry


def halfplanes(*rows: tuple[tuple[float, float], float]) -> np.ndarray:
    piece = geometry.SQUARE
    for weights, bound in rows:
        piece = geometry.clip(piece, weights, bound)
    return piece


def box(a: float, b: float) -> np.ndarray:
    return halfplanes(((1, 0), a), ((0, 1), b))


TABLE = {
    "z1 + z2 <= 0.4": ([halfplanes(((1, 1), 0.4))], 0.2, 0.5, [(0.4, 0.6)]),
    "z1 + z2 <= 0.5": ([halfplanes(((1, 1), 0.5))], 0.0, None, []),
    "z1 + 3 z2 <= 0.7": ([halfplanes(((1, 3), 0.7))], 0.066667, 0.25, [(0.233333, 0.3)]),
    "z1 + 3 z2 <= 0.75": ([halfplanes(((1, 3), 0.75))], 0.0, None, []),
    "box 0.1 0.3": ([box(0.1, 0.3)], 0.253590, 0.633975, [(0.35505, 0.84495)]),
    "box 0.04 0.6": ([box(0.04, 0.6)], 0.050161, 0.794787, [(0.68835, 0.87165)]),
    "box 0.5 0.05": ([box(0.5, 0.05)], 0.133772, 0.240253, [(0.11492, 0.43508)]),
    "box 0.25 0.25": ([box(0.25, 0.25)], 0.0, None, []),
    "two boxes": ([box(0.5, 0.05), box(0.05, 0.5)], 0.0, None, []),
    "z1 + z2 >= 0.6": ([halfplanes(((-1, -1), -0.6))], 0.2, 0.5, [(0.4, 0.6)]),
    "z1 <= 0.3, z1 + z2 <= 0.6": ([halfplanes(((1, 0), 0.3), ((1, 1), 0.6))], 0.0, None, []),
    "z1 <= 0.1, z1 + 2 z2 <= 0.9": ([halfplanes(((1, 0), 0.1), ((1, 2), 0.9))], 0.1, 0.66667, [(0.5, 0.8)]),
}


@pytest.mark.parametrize("name", TABLE)
def test_known_sets_have_their_gap_label_mass_and_intervals(name: str) -> None:
    pieces, gamma, p_star, allowed = TABLE[name]
    found = geometry.boostability(pieces)
    assert found.gamma == pytest.approx(gamma, abs=1e-4)
    assert found.is_boostable == (gamma > 0)
    assert p_star is None or found.p_star == pytest.approx(p_star, abs=1e-4)
    assert np.allclose(found.allowed, allowed, atol=1e-4)


def test_a_set_that_only_touches_a_coin_is_called_a_boundary_case() -> None:
    assert geometry.boostability([box(0.25, 0.25)]).verdict == "trivial (boundary case)"
    assert geometry.boostability([box(0.3, 0.3)]).verdict == "trivial"


def test_boxes_and_half_planes_follow_their_closed_forms() -> None:
    generator = np.random.default_rng(0)
    for _ in range(150):
        a, b = generator.uniform(0.001, 0.999, 2) ** 2
        root = math.sqrt(a) + math.sqrt(b)
        found = geometry.boostability([box(a, b)])
        assert found.gamma == pytest.approx(max(0.0, 1 - root**2), abs=1e-9)
        assert not found.is_boostable or found.p_star == pytest.approx(math.sqrt(b) / root, abs=1e-6)
    for _ in range(150):
        w1, w2 = generator.uniform(0.1, 5, 2)
        value = w1 * w2 / (w1 + w2)
        bound = float(value * generator.uniform(0.05, 1.3))
        gamma = geometry.boostability([halfplanes(((w1, w2), bound))]).gamma
        assert gamma == pytest.approx(max(0.0, 1 - bound / value), abs=1e-9)


def random_sets(count: int, seed: int) -> list[list[np.ndarray]]:
    generator = np.random.default_rng(seed)
    found = []
    while len(found) < count:
        corners = [generator.uniform(0, 0.5, 2) + generator.uniform(0, 0.5, (generator.integers(1, 6), 2)) ** 2
                   for _ in range(generator.integers(1, 4))]  # fmt: skip
        pieces = [geometry.hull(points) for points in corners]
        if any((piece.sum(axis=1) < 0.99).any() for piece in pieces):
            found.append(pieces)
    return found


def test_no_label_mass_of_a_fine_grid_does_better() -> None:
    grid = np.linspace(0, 1, 20_003)[1:-1]
    for pieces in random_sets(60, seed=1):
        found = geometry.boostability(pieces)
        gaps = geometry.gaps_at(pieces, grid)
        assert gaps[np.isfinite(gaps)].max(initial=0.0) <= found.gamma + 1e-12
        # and the gap is attained: p* itself has it
        assert geometry.gaps_at(pieces, np.array([found.p_star]))[0] == pytest.approx(found.gamma, abs=1e-9)


def test_intervals_say_where_no_coin_keeps_the_promise() -> None:
    for pieces in random_sets(60, seed=2):
        found = geometry.boostability(pieces)
        masses = np.linspace(0.005, 0.995, 199)
        for p, gap in zip(masses, geometry.gaps_at(pieces, masses), strict=True):
            ends = [end for interval in (*found.allowed, *found.infeasible) for end in interval]
            if min((abs(p - end) for end in ends), default=1.0) < 1e-6:
                continue
            assert any(a < p < b for a, b in found.infeasible) == math.isinf(gap)
            assert any(a < p < b for a, b in found.allowed) == (0 < gap < math.inf)


def least_edge(piece: np.ndarray, D: np.ndarray, y: np.ndarray) -> float:
    """The least |tpr - fpr| over all h in [0, 1]^m whose (FP, FN) lies in a convex piece; infinite if none does."""
    p, k = float(D[y].sum()), len(piece)
    m = len(y)
    fp, fn = np.where(y, 0, D), np.where(y, -D, 0)  # FN = p + fn · h
    edge = np.where(y, D / p, -D / (1 - p))
    equal = np.zeros((3, m + k + 1))
    equal[0, :m], equal[0, m:-1] = fp, -piece[:, 0]
    equal[1, :m], equal[1, m:-1] = fn, -piece[:, 1]
    equal[2, m:-1] = 1
    above = np.zeros((2, m + k + 1))
    above[0, :m], above[1, :m], above[:, -1] = edge, -edge, -1
    cost = np.zeros(m + k + 1)
    cost[-1] = 1
    bounds = [(0, 1)] * m + [(0, None)] * (k + 1)
    found = linprog(cost, above, [0, 0], equal, [0, -p, 1], bounds)
    return float(found.fun) if found.status == 0 else math.inf


def test_linear_programs_over_all_hypotheses_agree() -> None:
    """No hypothesis that keeps the promise has a smaller edge than the gap; both are 0 together."""
    generator = np.random.default_rng(3)
    for pieces in random_sets(25, seed=4):
        for p in generator.uniform(0.05, 0.95, 4):
            y = np.arange(12) < 5
            D = generator.uniform(0.2, 1, 12)
            D = np.where(y, p * D / D[y].sum(), (1 - p) * D / D[~y].sum())
            least, gap = min(least_edge(piece, D, y) for piece in pieces), geometry.gaps_at(pieces, np.array([p]))[0]
            assert math.isinf(least) == math.isinf(gap)
            assert math.isinf(gap) or least >= gap - 1e-8
            assert (least < 1e-8) == (gap < 1e-8)


def test_a_point_counts_only_where_it_can_occur() -> None:
    found = geometry.boostability([np.array([[0.4, 0.4]])])
    assert found.infeasible == [(0.0, pytest.approx(0.4)), (pytest.approx(0.6), 1.0)]
    assert found.gamma == pytest.approx(2 / 3) and found.p_star in (pytest.approx(0.4), pytest.approx(0.6))
    found = geometry.boostability([halfplanes(((0, -1), -0.1))])
    assert not found.is_boostable and found.infeasible == [(0.0, pytest.approx(0.1))]


def test_pairs_beyond_an_error_of_one_are_no_promise() -> None:
    with pytest.raises(ValueError, match="holds no pair that can occur"):
        geometry.boostability([np.array([[0.8, 0.8]])])


def test_swapping_the_labels_mirrors_the_label_mass() -> None:
    for pieces in random_sets(30, seed=5):
        found, mirrored = geometry.boostability(pieces), geometry.boostability([piece[:, ::-1] for piece in pieces])
        assert mirrored.gamma == pytest.approx(found.gamma, abs=1e-9)
        if found.is_boostable:
            near = 1 - mirrored.p_star + np.array([-1e-9, 0, 1e-9])  # it may be the end of what is feasible
            gaps = geometry.gaps_at(pieces, near)
            assert gaps[np.isfinite(gaps)].max() == pytest.approx(found.gamma, abs=1e-5)


def test_coins_of_a_trivial_promise_lie_in_it_and_on_their_segment() -> None:
    pieces = [box(0.5, 0.05), box(0.05, 0.5)]
    coins = geometry.boostability(pieces).coin
    assert len(coins) == 99
    for p, fp, fn in coins:
        assert geometry.coin_gap(np.array([fp, fn]), p) == pytest.approx(0, abs=1e-12)
        assert geometry.slack(pieces, np.array([fp, fn]))[0] >= -1e-12


def test_slack_is_the_distance_to_the_bounding_lines() -> None:
    pieces = [box(0.4, 0.2)]
    points = np.array([[0.1, 0.1], [0.39, 0.0], [0.5, 0.1], [0.0, 0.0]])
    assert geometry.slack(pieces, points) == pytest.approx([0.1, 0.01, -0.1, 0.2])
    segment = [np.array([[0.1, 0.1], [0.3, 0.1]])]
    assert geometry.slack(segment, np.array([[0.2, 0.15], [0.4, 0.1]])) == pytest.approx([-0.05, -0.1])


def test_a_hull_keeps_corners_alone() -> None:
    points = [[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.5], [0.5, 0], [1, 1]]
    assert sorted(geometry.hull(np.array(points)).tolist()) == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert geometry.hull(np.array([[0.1, 0.2], [0.1, 0.2]])).tolist() == [[0.1, 0.2]]


def test_a_segment_can_be_clipped() -> None:
    found = geometry.clip(np.array([[0.0, 0.5], [1.0, 0.5]]), (1, 0), 0.25)
    assert sorted(found.tolist()) == [[0.0, 0.5], [0.25, 0.5]]
    assert len(geometry.clip(np.array([[0.5, 0.5]]), (1, 0), 0.25)) == 0
