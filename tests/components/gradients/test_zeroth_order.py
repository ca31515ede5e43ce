"""zeroth_order: its moments, its steps, its workers' shares, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from raycipe.components.gradients._directions import DRAWS, coordinates
from raycipe.components.gradients.zeroth_order import ZerothOrder
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

DIM = 20
DRAWN = 20_000


@pytest.mark.parametrize(
    ("direction", "points", "wanted"),
    [
        ("gauss", 1, 1 + (DIM + 1)),
        ("gauss", 5, 1 + (DIM + 1) / 5),
        ("sphere", 1, DIM),
        ("sphere", 5, 1 + (DIM - 1) / 5),
        ("rademacher", 1, DIM),
        ("rademacher", 5, 1 + (DIM - 1) / 5),
    ],
)
def test_second_moment_on_a_linear_function(direction: str, points: int, wanted: float) -> None:
    """E|g|² / |g|² of (c/K) sum_k (u_k'g) u_k within three standard errors, and its mean is g."""
    generator = torch.Generator().manual_seed(1)
    g = torch.ones(DIM, dtype=torch.float64) / DIM**0.5
    u = DRAWS[direction](DRAWN * points, DIM, g, generator).view(DRAWN, points, DIM)
    factor = DIM if direction == "sphere" else 1
    estimates = factor * ((u @ g).unsqueeze(-1) * u).mean(1)
    squares = estimates.square().sum(1)
    assert abs(float(squares.mean()) - wanted) < 3 * float(squares.std()) / DRAWN**0.5
    assert float((estimates.mean(0) - g).norm()) < 3 * (wanted / DRAWN) ** 0.5


def test_second_moment_of_coordinates_is_d_over_k() -> None:
    g = torch.ones(DIM, dtype=torch.float64)
    for points in (1, 5, DIM):
        chosen = torch.randperm(DIM, generator=torch.Generator().manual_seed(0))[:points]
        estimate = DIM * ((coordinates(chosen, DIM, g) @ g).unsqueeze(-1) * coordinates(chosen, DIM, g)).mean(0)
        assert float(estimate.square().sum() / g.square().sum()) == pytest.approx(DIM / points)


@pytest.mark.parametrize("direction", ["gauss", "sphere", "rademacher"])
def test_estimate_is_the_slope_along_the_directions(direction: str, problem: Any) -> None:
    """On a function that is linear in each player: the same directions, drawn again."""
    found = problem("bilinear", {}, dim=4)
    w, v = found.point()
    exact = torch.func.grad(lambda w, v: found.flat.value(w, v, found.session.batch).mean(), argnums=(0, 1))(w, v)
    seen: list[torch.Tensor] = []
    random = found.random
    found.random = lambda name, draw: seen.append(random(name, draw)) or seen[-1]
    estimate = ZerothOrder(points=6, direction=direction, mu=0.3).estimate(found, w, v)
    factor = 4 if direction == "sphere" else 1
    for u, g, got in zip(seen, exact, estimate[:2], strict=True):
        torch.testing.assert_close(got, factor * ((u @ g).unsqueeze(1) * u).mean(0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0])
def test_all_coordinates_of_a_quadratic_give_the_exact_gradient(mu: float, problem: Any) -> None:
    found = problem("quadratic_game", {}, dim=5)
    w, v = found.point()
    exact = found.gradients(w, v)
    for estimator in (
        ZerothOrder(points=5, direction="coordinate", mu=mu),
        ZerothOrder(9, direction="coordinate", mu=mu),
    ):
        estimate = estimator.estimate(found, w, v)
        for got, wanted in zip(estimate[:2], exact, strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-8)
    assert "9 coordinates are asked for, and there are 5: takes 5" in found.session.warnings[0]


def test_forward_adds_its_curvature_to_the_second_moment() -> None:
    """For w'Aw/2 and K = 1 by mu²/4 (d+4)(tr(A)² + 2 tr(A²)); the mean stays the gradient."""
    generator = torch.Generator().manual_seed(2)
    a, w, mu = torch.arange(1, DIM + 1).double() / DIM, torch.ones(DIM).double() / 4, 0.5
    u = DRAWS["gauss"](400_000, DIM, w, generator)
    value = lambda x: (a * x.square()).sum(-1) / 2  # noqa: E731
    estimates = ((value(w + mu * u) - value(w)) / mu).unsqueeze(1) * u
    squares = estimates.square().sum(1)
    wanted = (DIM + 2) * (a * w).square().sum() + mu**2 / 4 * (DIM + 4) * (a.sum() ** 2 + 2 * a.square().sum())
    assert abs(float(squares.mean() - wanted)) < 4 * float(squares.std()) / 400_000**0.5


def test_chunks_of_directions_count_all_of_them(problem: Any, monkeypatch: Any) -> None:
    found = problem("quadratic_game", {}, dim=5)
    w, v = found.point()
    wanted = found.gradients(w, v)
    monkeypatch.setattr("raycipe.components.gradients.zeroth_order.CHUNK_FLOATS", 10)
    estimate = ZerothOrder(points=5, direction="coordinate", mu=0.1).estimate(found, w, v)
    torch.testing.assert_close(estimate.w, wanted[0], rtol=0, atol=1e-8)
    many = ZerothOrder(points=4000, direction="rademacher", mu=0.1).estimate(found, w, v)
    assert float((many.w - wanted[0]).norm() / wanted[0].norm()) < 4 * (5 / 4000) ** 0.5


def test_counts_of_evaluations(problem: Any) -> None:
    found = problem("bilinear", {})
    w, v = found.point()
    for scheme, wanted in (("central", 2 * 2 * 8), ("forward", 2 * 8 + 1), ("two_sample", 2 * 8 + 1)):
        found.evaluations = 0
        ZerothOrder(points=8, scheme=scheme, mu=0.1).estimate(found, w, v)
        assert found.evaluations == wanted


def test_joint_and_antithetic_directions_estimate_the_same_gradient(problem: Any) -> None:
    found = problem("quadratic_game", {}, dim=3)
    w, v = found.point()
    exact = torch.cat(found.gradients(w, v))
    kinds: list[dict[str, Any]] = [{"joint": True}, {"scheme": "forward", "antithetic": True}, {"scheme": "two_sample"}]
    for kind in kinds:
        estimate = ZerothOrder(points=20_000, mu=1e-3, **kind).estimate(found, w, v)
        assert float((torch.cat(estimate[:2]) - exact).norm() / exact.norm()) < 4 * (7 / 20_000) ** 0.5


def test_two_sample_takes_its_values_from_two_batches(problem: Any) -> None:
    found = problem("bilinear", {})
    drawn: list[int] = []
    draw = found.draw
    found.draw = lambda: drawn.append(1) or draw()
    ZerothOrder(points=2, scheme="two_sample", mu=0.1).estimate(found, *found.point())
    assert drawn == [1]


def test_automatic_steps_follow_theory_down_to_rounding(problem: Any) -> None:
    found = problem("bilinear", {}, dim=3)
    small = torch.zeros(3, dtype=torch.float64)
    assert float(ZerothOrder()._step(found, small, "auto")) == pytest.approx(1 / (6**1.5 * 10**0.5))
    assert float(ZerothOrder(direction="sphere", smoothness=4.0)._step(found, small, "auto")) == pytest.approx(
        1 / (4 * 10**0.5)
    )
    assert float(ZerothOrder(smoothness=1e12)._step(found, small + 100, "auto")) == pytest.approx(
        2**-26 * 100 * 3**0.5, rel=1e-6
    )


def test_a_step_that_rounding_swallows_is_told(problem: Any) -> None:
    found = problem("bilinear", {"dtype": "float32"})
    ZerothOrder(mu=1e-5).estimate(found, *found.point())
    assert "in float32 mu = 1e-05 is lost to rounding" in found.session.warnings[0]


def test_dropout_is_refused_unless_its_noise_is_frozen(problem: Any) -> None:
    found = problem("bilinear", {}, dim=3)
    found.saddle.model = nn.Sequential(found.saddle.model, nn.Dropout(0.5))
    found.flat = type(found.flat)(found.task, found.saddle)
    w, v = found.point()
    with pytest.raises(RunError, match="outputs of model.1 are random"):
        ZerothOrder().estimate(found, w, v)
    state = torch.get_rng_state()
    frozen = ZerothOrder(points=3, direction="coordinate", mu=1e-3, freeze_noise=True).estimate(found, w, v)
    again = ZerothOrder(points=3, direction="coordinate", mu=1e-6, freeze_noise=True).estimate(found, w, v)
    assert torch.equal(state, torch.get_rng_state())
    assert float(frozen.v.abs().max()) < 10 and float(again.v.abs().max()) < 10  # not noise / mu


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"antithetic": True}, "antithetic: pairs u, -u need scheme forward"),
        ({"antithetic": True, "scheme": "forward", "points": 3}, "antithetic"),
        ({"joint": True, "mu_w": 0.1}, "joint: one direction for both players has one step"),
    ],
)
def test_arguments_that_contradict_each_other(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make("gradients/zeroth_order", **arguments)
