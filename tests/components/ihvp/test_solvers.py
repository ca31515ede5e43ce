"""The solvers on small matrices whose solutions are known exactly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from raycipe.framework.contracts import Dense, Solved
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

H = torch.tensor([[4, 1, 0, 0], [1, 3, 1, 0], [0, 1, -2, 1], [0, 0, 1, 1]], dtype=torch.float64)
V = torch.tensor([1, 2, -1, 0.5], dtype=torch.float64)
SELECTED = {
    (0, 1): (0.09090909, 0.63636364),
    (0, 2): (0.25, 0.5),
    (1, 2): (0.42857143, 0.71428571),
    (2, 3): (0.5, 0.0),
}
ALL_ROWS = {
    (0, 1): (0.17391304, 0.43478261),
    (0, 2): (0.31188119, 0.69801980),
    (1, 2): (0.48461538, 0.66923077),
    (2, 3): (0.77272727, 0.13636364),
}
EXACT = {
    "p_lissa": {"max_hvp": 600, "tol": 0},
    "p_lissa nesterov": {"max_hvp": 600, "tol": 0, "acceleration": "nesterov"},
    "p_lissa cgls": {"max_hvp": 40, "tol": 1e-12, "acceleration": "cgls"},
    "minres": {"tol": 1e-12},
    "lsmr": {"tol": 1e-13},
    "direct": {},
    "arnoldi": {},
}


def solve(name: str, system: Dense, b: Tensor, **arguments: Any) -> Solved:
    found: Solved = make(f"ihvp/{name.split()[0]}", **arguments).solve(system, b)
    return found


def square(chosen: tuple[int, ...]) -> tuple[Dense, Tensor]:
    index = torch.tensor(chosen)
    return Dense(H[index][:, index]), V[index]


def residual(system: Dense, b: Tensor, x: Tensor) -> float:
    return float((system.a @ x - b).norm() / b.norm())


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("chosen", SELECTED)
def test_selected_rows_are_solved_whatever_the_signs_of_the_eigenvalues(name: str, chosen: tuple[int, ...]) -> None:
    system, b = square(chosen)
    x = solve(name, system, b, **EXACT[name]).x
    torch.testing.assert_close(x, torch.tensor(SELECTED[chosen], dtype=torch.float64), rtol=0, atol=2e-8)


@pytest.mark.parametrize("name", [name for name in EXACT if name not in ("minres", "arnoldi")])
@pytest.mark.parametrize("chosen", ALL_ROWS)
def test_all_rows_are_solved_in_the_least_squares_sense(name: str, chosen: tuple[int, ...]) -> None:
    index = torch.tensor(chosen)
    x = solve(name, Dense(H[:, index], index), V, **{**EXACT[name], "tol": 0} if name != "direct" else {}).x
    torch.testing.assert_close(x, torch.tensor(ALL_ROWS[chosen], dtype=torch.float64), rtol=0, atol=2e-8)


@pytest.mark.parametrize("name", EXACT)
def test_single_precision_is_solved_to_single_precision(name: str) -> None:
    system, b = square((1, 2))
    x = solve(name, Dense(system.a.float()), b.float(), **{**EXACT[name], "tol": 1e-6} if EXACT[name] else {}).x
    torch.testing.assert_close(x, torch.tensor(SELECTED[1, 2]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["minres", "arnoldi", "lissa", "cg"])
def test_a_solver_of_square_systems_refuses_a_tall_one(name: str) -> None:
    with pytest.raises(RunError, match=f"ihvp/{name} solves square systems alone"):
        solve(name, Dense(H[:, :2]), V)


@pytest.mark.parametrize(("steps", "wanted"), [(10, 1.0310e-3), (50, 1e-13)])
def test_p_lissa_shrinks_the_residual_as_its_rate_says(steps: int, wanted: float) -> None:
    system, b = square((1, 2))
    sigma = float(torch.linalg.eigvalsh(system.a).abs().max())
    found = residual(system, b, solve("p_lissa", system, b, step=sigma**-2, max_hvp=2 * steps + 1, tol=0).x)
    assert found == pytest.approx(wanted, rel=1e-4) if steps == 10 else found < wanted


def test_p_lissa_on_the_whole_matrix() -> None:
    sigma = 4.66354257
    for steps, wanted in ((10, 2.4528e-2), (100, 1.0589e-5)):
        x = solve("p_lissa", Dense(H), V, step=sigma**-2, max_hvp=2 * steps + 1, tol=0).x
        assert residual(Dense(H), V, x) == pytest.approx(wanted, rel=1e-3)


def test_p_lissa_follows_the_rate_law_of_every_eigenvalue() -> None:
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(12, 12, generator=generator, dtype=torch.float64)
    a = (a + a.T) / 2
    b = torch.randn(12, generator=generator, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(a)
    eta = 1 / float(values.abs().max()) ** 2
    x = solve("p_lissa", Dense(a), b, step=eta, max_hvp=2 * 25 + 1, tol=0).x
    wanted = (((1 - eta * values**2) ** 25 * (vectors.T @ b)) ** 2).sum().sqrt()
    torch.testing.assert_close((b - a @ x).norm(), wanted, rtol=1e-9, atol=0)


def test_each_acceleration_leaves_less_of_low_curvature_after_as_many_products() -> None:
    system, b = Dense(torch.diag(torch.linspace(0.03, 1, 60, dtype=torch.float64))), torch.ones(60, dtype=torch.float64)
    left = {
        name: residual(system, b, solve("p_lissa", system, b, max_hvp=100, tol=0, acceleration=name).x)
        for name in ("none", "nesterov", "chebyshev", "cgls")
    }
    assert list(left) == sorted(left, key=lambda name: -left[name]), left


def test_the_null_space_is_never_touched() -> None:
    b = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)
    system = Dense(torch.diag(torch.tensor([2.0, -1.0, 0.0], dtype=torch.float64)))
    x = solve("p_lissa", system, b, max_hvp=2000).x
    torch.testing.assert_close(x, torch.tensor([1.0, -3.0, 0.0], dtype=torch.float64), rtol=0, atol=1e-12)
    assert residual(system, b, x) == pytest.approx(5 / math.sqrt(38))
    warm = solve("p_lissa", system, b, max_hvp=2000, x0="warm", tau=0.5).x
    torch.testing.assert_close(warm, torch.tensor([1.0, -3.0, 2.5], dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("damping", [0.0, 1.0])
def test_lissa_says_that_it_diverges_under_negative_curvature(damping: float) -> None:
    system, b = square((1, 2))
    found = solve("lissa", system, b, damping=damping, max_hvp=400)
    assert found.reason == "diverged" and not found.is_converged
    assert bool(torch.isfinite(found.x).all())


@pytest.mark.parametrize(
    ("damping", "wanted", "error"),
    [(2.5, (1.14285714, -4.28571429), 4.9590), (4.0, (0.38461538, -0.69230769), 1.41672)],
)
def test_damping_biases_lissa_up_to_a_wrong_sign(damping: float, wanted: tuple[float, ...], error: float) -> None:
    system, b = square((1, 2))
    x = solve("lissa", system, b, damping=damping, max_hvp=2000).x
    torch.testing.assert_close(x, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-6)
    assert residual(system, b, x) == pytest.approx(error, rel=1e-4)


def test_cg_stops_at_negative_curvature_or_fails_as_asked() -> None:
    system, b = square((1, 2))
    assert solve("cg", system, b, damping=0).reason == "negative curvature"
    with pytest.raises(RunError, match="negative curvature at step"):
        solve("cg", system, b, damping=0, on_negative_curvature="raise")
    x = solve("cg", system, b, damping=4, tol=1e-12).x
    torch.testing.assert_close(x, torch.tensor((0.38461538, -0.69230769), dtype=torch.float64), rtol=0, atol=1e-7)


def noisy_terms() -> tuple[Tensor, Tensor, Tensor]:
    """400 symmetric matrices around one with four negative eigenvalues, its eigenvalues in [-.5, 2]."""
    generator = np.random.default_rng(0)
    values = np.concatenate([np.linspace(2, 0.3, 20)[:16], [-0.3, -0.5, -0.4, -0.35]])
    q = np.linalg.qr(generator.normal(size=(20, 20)))[0]
    a = q @ np.diag(values) @ q.T
    noise = generator.normal(size=(400, 20, 20))
    noise = (noise + noise.transpose(0, 2, 1)) / 2
    noise -= noise.mean(axis=0)
    b = generator.normal(size=20)
    return torch.from_numpy(a), torch.from_numpy(a + noise), torch.from_numpy(b)


def test_one_draw_for_both_products_is_biased_and_two_are_not() -> None:
    a, terms, b = noisy_terms()
    noise = terms - a
    squares = (noise @ noise).mean(dim=0) / 64  # the covariance of a batch of 64
    predicted = residual(Dense(a), b, torch.linalg.solve(a @ a + squares, a @ b))
    arguments: dict[str, Any] = {"batching": "stochastic", "batch_size": 64, "step": 0.02, "max_hvp": 8000}
    same = solve("p_lissa", Dense(a, terms=terms), b, independent_batches=False, **arguments).x
    other = solve("p_lissa", Dense(a, terms=terms), b, **arguments).x
    assert residual(Dense(a), b, same) == pytest.approx(predicted, rel=0.08)
    assert residual(Dense(a), b, other) <= residual(Dense(a), b, same) / 5


def test_a_step_that_is_too_long_is_halved_from_the_best_iterate() -> None:
    system, b = square((1, 2))
    found = solve("p_lissa", system, b, step=0.5, max_hvp=4000, tol=1e-9)
    assert found.is_converged and residual(system, b, found.x) <= 1e-9
    assert solve("p_lissa", system, b, step=1e9, max_hvp=4000).reason == "diverged"


def test_what_was_spent_is_counted_and_never_exceeds_the_budget() -> None:
    for name in ("p_lissa", "lissa", "cg", "minres", "lsmr", "arnoldi"):
        system = Dense(torch.diag(torch.linspace(1, 2, 60, dtype=torch.float64)))
        extra = 20 if name in ("p_lissa", "lissa") else 0
        solve(
            name,
            system,
            torch.ones(60, dtype=torch.float64),
            max_hvp=10,
            **({} if name in ("lissa", "arnoldi") else {"tol": 0}),
        )
        assert 0 < system.products - extra <= 10 + (name == "lsmr"), name


def test_the_norm_can_be_bounded() -> None:
    system = Dense(torch.diag(torch.tensor([1.0, 1e-3], dtype=torch.float64)))
    found = solve("p_lissa", system, torch.ones(2, dtype=torch.float64), max_hvp=10**5, max_norm=2.0)
    assert found.reason == "norm" and 2.0 < float(found.x.norm()) < 2.1


def test_changing_matrices_are_refused_to_methods_that_need_a_fixed_one() -> None:
    for acceleration in ("cgls", "chebyshev"):
        with pytest.raises(ValueError, match="acceleration: .* needs the same matrix"):
            make("ihvp/p_lissa", acceleration=acceleration, batching="stochastic")


def test_direct_refuses_what_is_too_large() -> None:
    with pytest.raises(RunError, match="a matrix of 4 columns, more than 3"):
        solve("direct", Dense(H), V, max_columns=3)
