"""Lanczos and trace estimates on matrices whose spectrum is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from raycipe.framework.curvature import extremes, hutchinson, hutchpp, lanczos, probe


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def symmetric(values: Tensor, seed: int = 0) -> Tensor:
    """A matrix with these eigenvalues and random eigenvectors."""
    turn, _ = torch.linalg.qr(torch.randn(len(values), len(values), generator=generator(seed), dtype=torch.float64))
    return turn @ torch.diag(values) @ turn.T


VALUES = torch.cat([torch.tensor([-2.0, 5.0, 7.0, 9.0]), torch.linspace(-0.1, 0.1, 76)]).double()


def test_lanczos_finds_extreme_eigenvalues_and_tells_which_are_found() -> None:
    matrix = symmetric(VALUES)
    found = lanczos(lambda v: matrix @ v, probe(80, generator(1), dtype=torch.float64), 25, with_vectors=True)
    true = found.converged(1e-9)
    assert true[-3:].all() and true[0] and not true.all()
    torch.testing.assert_close(found.values[-3:], VALUES[1:4], rtol=1e-9, atol=0)
    torch.testing.assert_close(found.values[0], VALUES[0], rtol=1e-9, atol=0)
    assert found.vectors is not None
    errors = (matrix @ found.vectors - found.vectors * found.values).norm(dim=0)
    torch.testing.assert_close(errors, found.residuals, rtol=1e-4, atol=1e-9)


def test_lanczos_over_all_steps_is_exact_and_its_weights_integrate() -> None:
    matrix = symmetric(torch.linspace(1, 2, 12).double())
    start = probe(12, generator(2), dtype=torch.float64)
    found = lanczos(lambda v: matrix @ v, start, 50)
    torch.testing.assert_close(found.values, torch.linspace(1, 2, 12).double(), rtol=1e-10, atol=0)
    wanted = start @ torch.linalg.inv(matrix) @ start / (start @ start)
    assert float((found.weights / found.values).sum()) == pytest.approx(float(wanted), rel=1e-10)


def test_an_invariant_subspace_ends_lanczos_with_exact_values() -> None:
    matrix = torch.diag(torch.tensor([3.0, 3.0, 1.0, 0.0])).double()
    found = lanczos(lambda v: matrix @ v, torch.ones(4).double(), 4)
    torch.testing.assert_close(found.values, torch.tensor([0.0, 1.0, 3.0]).double(), rtol=1e-12, atol=1e-12)
    assert float(found.residuals.max()) == 0.0


def test_lanczos_refuses_a_start_of_zero() -> None:
    with pytest.raises(ValueError, match="start: must not be zero"):
        lanczos(lambda v: v, torch.zeros(3), 2)


def test_extremes_stop_as_soon_as_what_is_asked_for_is_found() -> None:
    matrix = symmetric(VALUES)
    asked: list[int] = []

    def product(v: Tensor) -> Tensor:
        asked.append(1)
        return matrix @ v

    found = extremes(product, probe(80, generator(1)), largest=3, smallest=1, tolerance=1e-8)
    assert len(asked) < 40 and found.converged(1e-8)[[0, -3, -2, -1]].all()
    torch.testing.assert_close(found.values[[0, -3, -2, -1]], VALUES[[0, 1, 2, 3]], rtol=1e-8, atol=0)
    few = extremes(product, probe(80, generator(1)), largest=3, steps=5)
    assert len(few.values) == 5 and not few.converged(1e-8)[-3:].all()


def test_trace_estimates_are_right_on_average_and_hutchpp_is_nearer() -> None:
    matrix = symmetric(VALUES)
    trace = float(VALUES.sum())

    def probes(seed: int, count: int) -> Tensor:
        stream = generator(seed)
        return torch.stack([probe(80, stream, dtype=torch.float64) for _ in range(count)])

    plain = torch.stack([hutchinson(lambda v: v @ matrix, probes(seed, 30)).mean() for seed in range(40)])
    assert abs(float(plain.mean()) - trace) < 4 * float(plain.std()) / 40**0.5
    sharper = []
    for seed in range(40):
        exact, rest = hutchpp(lambda v: v @ matrix, probes(seed, 30))
        sharper.append(exact + float(rest.mean()))
    errors = torch.tensor(sharper, dtype=torch.float64) - trace
    assert float(errors.square().mean().sqrt()) < 0.2 * float(plain.std())


def test_probes_have_unit_variance_and_are_alike_for_a_seed() -> None:
    for kind in ("rademacher", "gaussian"):
        found = probe(20000, generator(3), kind)  # type: ignore[arg-type]
        assert abs(float(found.var()) - 1) < 0.05 and abs(float(found.mean())) < 0.03
        assert torch.equal(found, probe(20000, generator(3), kind))  # type: ignore[arg-type]
