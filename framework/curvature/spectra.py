"""Eigenvalues, spectral measures and traces of a symmetric matrix that is known by its products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]
INVARIANT = 1e-10  # a remainder this small beside the matrix found so far: the subspace is invariant


class Krylov(NamedTuple):
    """What Lanczos found: `values` ascending, `vectors` (size, m) where they were kept.

    `weights` are the squared first components of the tridiagonal matrix's eigenvectors: sum_j weights_j f(values_j) is
    start' f(A) start / |start|² by Gauss quadrature. `residuals` are |A x - value x|, which bound each value's error.
    """

    values: Tensor
    weights: Tensor
    residuals: Tensor
    vectors: Tensor | None

    @property
    def scale(self) -> float:
        """The largest absolute value."""
        return float(self.values.abs().max())

    def converged(self, tolerance: float = 1e-6) -> Tensor:
        """Which values are eigenvalues to within `tolerance` of the largest."""
        return self.residuals <= tolerance * max(self.scale, torch.finfo(self.values.dtype).tiny)


def lanczos(product: Product, start: Tensor, steps: int, with_vectors: bool = False) -> Krylov:
    """The Lanczos method from `start` (size,), every new direction made orthogonal to all before, twice.

    Stops early at an invariant subspace, which is exact. Keeps `steps` vectors in memory.
    """
    size = len(start)
    steps = min(steps, size)
    basis = start.new_zeros(steps, size)
    diagonal, off = start.new_zeros(steps), start.new_zeros(steps)
    norm = float(start.norm())
    if norm == 0:
        raise ValueError("start: must not be zero")
    basis[0] = start / norm
    found, last = steps, 0.0
    for j in range(steps):
        image = product(basis[j])
        diagonal[j] = basis[j] @ image
        for _ in range(2):
            image = image - basis[: j + 1].T @ (basis[: j + 1] @ image)
        last = float(image.norm())
        scale = float(torch.maximum(diagonal[: j + 1].abs(), off[: j + 1].abs()).max())
        if last <= INVARIANT * scale or last == 0:
            found, last = j + 1, 0.0
            break
        if j + 1 < steps:
            off[j + 1] = last
            basis[j + 1] = image / last
    tridiagonal = torch.diag(diagonal[:found])
    rows = torch.arange(1, found)
    tridiagonal[rows, rows - 1] = tridiagonal[rows - 1, rows] = off[1:found]
    values, turned = torch.linalg.eigh(tridiagonal)
    vectors = basis[:found].T @ turned if with_vectors else None
    return Krylov(values, turned[0] ** 2, last * turned[-1].abs(), vectors)


def probe(
    size: int,
    generator: torch.Generator,
    kind: Literal["rademacher", "gaussian"] = "rademacher",
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Tensor:
    """A random vector with independent entries of mean 0 and variance 1; drawn on the CPU, so alike on all devices."""
    if kind == "gaussian":
        drawn = torch.randn(size, generator=generator, dtype=torch.float64)
    else:
        drawn = torch.randint(0, 2, (size,), generator=generator).double() * 2 - 1
    return drawn.to(device=device, dtype=dtype)


def hutchinson(product: Product, probes: Tensor) -> Tensor:
    """Unbiased estimates z'Az of the trace, one a row of `probes` (k, size); their mean is the estimate."""
    return (probes * product(probes)).sum(dim=1)


def hutchpp(product: Product, probes: Tensor) -> tuple[float, Tensor]:
    """Hutch++: the exact trace on a random subspace, and estimates of the rest; their sum's mean is the estimate.

    A third of the probes (k, size) each spans the subspace, is multiplied with it, and estimates the rest.
    R. A. Meyer, C. Musco, C. Musco, D. Woodruff, Hutch++: Optimal Stochastic Trace Estimation, SOSA 2021.
    """
    third = len(probes) // 3
    if third < 1:
        raise ValueError(f"probes: needs at least 3, not {len(probes)}")
    basis, _ = torch.linalg.qr(product(probes[:third]).T)  # (size, third)
    exact = float((basis.T * product(basis.T.contiguous())).sum())
    rest = probes[third : 2 * third]
    rest = rest - (rest @ basis) @ basis.T
    return exact, hutchinson(product, rest)
