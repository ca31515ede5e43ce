"""Eigenvalues of the loss's second derivatives."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from raycipe.components.measures._curvature import Matrix, Precision, curvature, start_of
from raycipe.framework.arguments import Count, Positive, Range, Seed
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.curvature import Curvature, extremes, lanczos, probe
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator

WIDTH = 0.01  # of the bumps that the density is drawn with, relative to the spectrum's range
POINTS = 400


class Spectrum(NamedTuple):
    """Atoms of a spectral measure of total mass N, and those of them that are eigenvalues, largest first."""

    values: Tensor  # ascending
    masses: Tensor
    eigenvalues: Tensor
    residuals: Tensor


@register
class HessianSpectrum(Measure):
    """Spectrum of the Hessian (or Gauss-Newton matrix) of the loss: extreme eigenvalues, density, trace and norm.

    dense: the whole matrix and all its eigenvalues. slq: stochastic Lanczos quadrature, whose density is
    (N / runs) sum over runs and steps of τ δ_θ, with Ritz values θ and the squared first components τ of their vectors.
    lanczos: the k largest and k smallest eigenvalues alone. Only what is found to within `tolerance` is listed as an
    eigenvalue, beside its residual |H v - λ v|, which bounds its error. `negative` is the share of the spectrum below
    -tolerance · max |λ|.

    Args:
        method: auto takes dense up to dense_limit parameters, else slq
        k: how many eigenvalues are listed at each end
        dense_limit: parameters up to which auto makes the whole matrix
        runs: random starts of slq
        steps: Lanczos steps of a run of slq, and at most of lanczos (ten times as many)
        tolerance: of an eigenvalue, relative to the largest
        probes: distribution of the starts of slq
        split: whose loss
        examples: at most so many examples, drawn from the run's seed (null: all)
        matrix: the Hessian, or the Gauss-Newton matrix, which has no negative eigenvalues
        parameters: names of the parameters that count, as a file pattern: `layers.1.*`
        precision: number format of all derivatives
        seed: draws the starts

    Reference:
        B. Ghorbani, S. Krishnan, Y. Xiao, An Investigation into Neural Net Optimization via Hessian Eigenvalue
        Density, ICML 2019; L. Lin, Y. Saad, C. Yang, Approximating Spectral Densities of Large Matrices, 2016.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [8]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
        measures: [{type: hessian_spectrum, method: slq, runs: 2, steps: 20, k: 3, examples: 200}]
    """

    needs: ClassVar[tuple[str, ...]] = ("model", "task")
    reports: ClassVar[tuple[str, ...]] = ("largest", "smallest", "trace", "norm", "negative", "parameters", "found")

    def __init__(
        self,
        method: Literal["auto", "dense", "lanczos", "slq"] = "auto",
        k: Count = 20,
        dense_limit: Annotated[int, Range(ge=1, le=20000)] = 3000,
        runs: Count = 16,
        steps: Count = 80,
        tolerance: Positive = 1e-6,
        probes: Literal["rademacher", "gaussian"] = "rademacher",
        split: Literal["train", "val", "test"] = "train",
        examples: Count | None = None,
        matrix: Matrix = "hessian",
        parameters: str = "*",
        precision: Precision = "float64",
        seed: Seed = 0,
    ) -> None:
        self.method = method
        self.k = k
        self.dense_limit = dense_limit
        self.runs = runs
        self.steps = steps
        self.tolerance = tolerance
        self.probes = probes
        self.split = split
        self.examples = examples
        self.matrix: Matrix = matrix
        self.parameters = parameters
        self.precision: Precision = precision
        self.seed = seed

    def measure(self, trained: Trained) -> Measured:
        loss = curvature(trained, self.split, self.examples, self.matrix, self.parameters, self.precision)
        method = self.method
        if method == "auto":
            method = "dense" if loss.size <= self.dense_limit else "slq"
        if method == "dense" and loss.size > 20000:
            gigabytes = loss.size**2 * 8 / 1e9
            raise Skipped(f"a matrix of {loss.size:,} parameters takes {gigabytes:,.0f} GB: choose `method: slq`")
        if method == "lanczos":
            return self._ends(loss)
        found = dense(loss) if method == "dense" else self._slq(loss)
        values = {**_sizes(found, self.tolerance), "parameters": float(loss.size), **_found(found.eigenvalues)}
        tables = {"eigenvalues": _listed(found, self.k), "density": _density(found)}
        return Measured(values=values, tables=tables, figures={"density": lambda: _draw(tables["density"])})

    def _slq(self, loss: Curvature) -> Spectrum:
        stream = torch_generator(self.seed, "hessian_spectrum")
        runs = []
        for _ in range(self.runs):
            start = probe(loss.size, stream, self.probes, loss.dtype, loss.device)
            runs.append(lanczos(loss.product, start, self.steps))
        values, order = torch.cat([run.values for run in runs]).sort()
        masses = torch.cat([run.weights for run in runs])[order] * (loss.size / self.runs)
        best = max(runs, key=lambda run: int(run.converged(self.tolerance).sum()))
        true = best.converged(self.tolerance)
        return Spectrum(values, masses, best.values[true].flip(0), best.residuals[true].flip(0))

    def _ends(self, loss: Curvature) -> Measured:
        start = start_of(loss, self.seed, "hessian_spectrum")
        run = extremes(loss.product, start, self.k, self.k, 10 * self.steps, self.tolerance)
        true = run.converged(self.tolerance)
        if not true.any():
            raise Skipped(f"no eigenvalue was found in {10 * self.steps} Lanczos steps: raise steps")
        eigenvalues, residuals = run.values[true].flip(0), run.residuals[true].flip(0)
        found = Spectrum(run.values, run.weights, eigenvalues, residuals)
        values = {"parameters": float(loss.size), **_found(eigenvalues)}
        if true[-1]:
            values["largest"] = float(run.values[-1])
        if true[0]:
            values["smallest"] = float(run.values[0])
        return Measured(values=values, tables={"eigenvalues": _listed(found, self.k)})


def dense(loss: Curvature) -> Spectrum:
    values = torch.linalg.eigvalsh(loss.matrix()).double().cpu()
    return Spectrum(values, torch.ones_like(values), values.flip(0), torch.zeros_like(values))


def _sizes(found: Spectrum, tolerance: float) -> dict[str, float]:
    values, masses = found.values, found.masses
    below = values < -tolerance * float(values.abs().max())
    return {
        "largest": float(values[-1]),
        "smallest": float(values[0]),
        "trace": float(masses @ values),
        "norm": float((masses @ values**2).sqrt()),
        "negative": float(masses[below].sum() / masses.sum()),
    }


def _found(eigenvalues: Tensor) -> dict[str, float]:
    return {"found": float(len(eigenvalues))}


def _listed(found: Spectrum, k: int) -> list[dict[str, Any]]:
    """The k largest and k smallest eigenvalues, each once."""
    count = len(found.eigenvalues)
    places = [place for place in range(count) if place < k or place >= count - k]
    return [
        {"rank": place + 1, "value": float(found.eigenvalues[place]), "residual": float(found.residuals[place])}
        for place in places
    ]


def _density(found: Spectrum) -> list[dict[str, Any]]:
    """The share of eigenvalues around points of the range, each atom spread by a normal bump."""
    low, high = float(found.values[0]), float(found.values[-1])
    width = WIDTH * ((high - low) or max(abs(high), 1.0))
    grid = torch.linspace(low - 4 * width, high + 4 * width, POINTS, dtype=torch.float64)
    bumps = torch.exp(-((grid[:, None] - found.values.double()[None]) ** 2) / (2 * width**2))
    density = bumps @ (found.masses.double() / found.masses.sum()) / (width * (2 * torch.pi) ** 0.5)
    return [{"value": float(x), "density": float(y)} for x, y in zip(grid, density, strict=True)]


def _draw(rows: list[dict[str, Any]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.semilogy([row["value"] for row in rows], [max(row["density"], 1e-12) for row in rows])
    axes.set(xlabel="eigenvalue", ylabel="density", ylim=(1e-6 * max(row["density"] for row in rows), None))
    return figure
