"""Eigenvalues, spectral measures and traces of a symmetric matrix that is known by its products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]
ASKED_EVERY = 10  # steps
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


def lanczos(
    product: Product,
    start: Tensor,
    steps: int,
    with_vectors: bool = False,
    is_done: Callable[[Krylov], bool] | None = None,
) -> Krylov:
    """The Lanczos method from `start` (size,), every new direction made orthogonal to all before, twice.

    Stops early at an invariant subspace, which is exact, or where `is_done`, asked now and then, says so of what has
    been found (without vectors). Keeps all its vectors in memory.
    """
    norm = float(start.norm())
    if norm == 0:
        raise ValueError("start: must not be zero")
    steps = min(steps, len(start))
    basis = [start / norm]
    diagonal: list[float] = []
    off: list[float] = []
    while True:
        image = product(basis[-1])
        diagonal.append(float(basis[-1] @ image))
        whole = torch.stack(basis)
        for _ in range(2):
            image = image - whole.T @ (whole @ image)
        last = float(image.norm())
        if last <= INVARIANT * max(map(abs, [*diagonal, *off])):
            return _ritz(basis, diagonal, off, 0.0, with_vectors)
        if len(basis) == steps:
            return _ritz(basis, diagonal, off, last, with_vectors)
        if is_done is not None and len(basis) % ASKED_EVERY == 0:
            found = _ritz(basis, diagonal, off, last, False)
            if is_done(found):
                return _ritz(basis, diagonal, off, last, with_vectors) if with_vectors else found
        off.append(last)
        basis.append(image / last)


def _ritz(basis: list[Tensor], diagonal: list[float], off: list[float], last: float, with_vectors: bool) -> Krylov:
    """Eigenvalues of the tridiagonal matrix, in double precision."""
    tridiagonal = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    for row, value in enumerate(off):
        tridiagonal[row, row + 1] = tridiagonal[row + 1, row] = value
    values, turned = torch.linalg.eigh(tridiagonal)
    vectors = torch.stack(basis).T @ turned.to(basis[0]) if with_vectors else None
    return Krylov(values, turned[0] ** 2, last * turned[-1].abs(), vectors)


def extremes(
    product: Product, start: Tensor, largest: int, smallest: int = 0, steps: int = 200, tolerance: float = 1e-6
) -> Krylov:
    """Lanczos until so many of the largest and smallest values are eigenvalues to `tolerance`, or `steps` are done.

    A Krylov space holds one direction of each eigenspace: a value that stands in the matrix twice is found once.
    """

    def is_done(found: Krylov) -> bool:
        true = found.converged(tolerance)
        return bool(true[:smallest].all() and (not largest or true[-largest:].all()) and len(true) > largest + smallest)

    return lanczos(product, start, steps, is_done=is_done)


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
