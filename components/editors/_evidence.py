"""What an edit by a linear system reports: how well it was solved, how much was moved, what it did."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from raycipe.components.editors._case import Case
from raycipe.components.editors._objective import ModelSystem, Terrain, layout_of
from raycipe.components.editors._strength import Chosen
from raycipe.framework.contracts import Measured, Solved
from raycipe.framework.curvature import lanczos
from raycipe.framework.streams import torch_generator


@dataclass
class Direction:
    """One linearisation: S, v, the system with its b, the solution, and the step x of the selected parameters."""

    index: Tensor
    v: Tensor
    system: ModelSystem | None  # None where nothing is asked for
    b: Tensor | None
    solved: Solved
    terrain: Terrain
    step: Tensor = field(default_factory=lambda: torch.zeros(0))


def of(
    case: Case, found: Direction, last: Direction, chosen: Chosen, edited: nn.Module, seconds: float, spectrum: int
) -> Measured:
    """`found` is the first linearisation, which is described; `last` the one of the last step."""
    total = len(found.v)
    moved = torch.unique(torch.cat([found.index, last.index]))
    values = {
        "selected": float(len(found.index)),
        "selected_share": len(moved) / total,
        "alignment": float(found.v[found.index].norm() / found.v.norm()) if len(found.index) else 0.0,
        "step_norm": float(found.step.double().norm()),
        "strength": chosen.strength,
        "reached": float(chosen.is_reached),
        "seconds": seconds,
        "solver_iterations": float(found.solved.iterations),
        "converged": float(found.solved.is_converged),
        "products": float((found.system.products if found.system else 0) + found.terrain.products),
    }
    if not math.isnan(chosen.target):
        values["target"] = chosen.target
    if found.solved.reason not in ("budget", "tolerance", "exact"):
        case.notes.append(f"the solver ended with: {found.solved.reason}")
    case.notes += found.solved.notes
    values |= residuals(found) | case.figures(case.model, "before") | case.figures(edited, "after")
    ritz = ritz_values(found, spectrum, case.trained.seed)
    values |= _extremes(ritz)
    tables: dict[str, list[dict[str, Any]]] = {"parameters": shares(case.model, found.index)}
    figures: dict[str, Any] = {"parameters": lambda: draw_shares(tables["parameters"])}
    if chosen.rows:
        tables["strength"] = chosen.rows
        figures["strength"] = lambda: draw_search(chosen)
    if found.solved.history:
        tables["solver"] = found.solved.history
        figures["solver"] = lambda: draw_solver(found.solved.history)
    if len(ritz):
        tables["spectrum"] = [{"ritz_value": value} for value in ritz.tolist()]
        figures["spectrum"] = lambda: draw_spectrum(ritz.tolist())
    _warn(case)
    return Measured(values, figures, tables, {"notes": "\n".join(case.notes)} if case.notes else {})


def residuals(found: Direction) -> dict[str, float]:
    """|A x - b| / |b| and |A'(A x - b)| / |A'b|, with products of their own."""
    system, b = found.system, found.b
    if system is None or b is None:
        return {}
    spent = system.products
    x = found.solved.x.to(b)
    residual = system.product(x) - b
    normal = system.transposed(residual).double().norm() / system.transposed(b).double().norm()
    system.products = spent  # what is looked at afterwards is no cost of the edit
    return {
        "relative_residual": float(residual.double().norm() / b.double().norm()),
        "normal_residual": float(normal),
    }


def ritz_values(found: Direction, steps: int, seed: int) -> Tensor:
    """An estimate of the spectrum of the square system, ascending; empty where there is none."""
    system = found.system
    if system is None or not steps or not system.is_square:
        return torch.zeros(0)
    spent = system.products
    start = torch.randn(system.columns, generator=torch_generator(seed, "spectrum"), dtype=torch.float64)
    values = lanczos(system.product, start.to(found.step), steps).values.double().cpu()
    system.products = spent
    return values


def _extremes(ritz: Tensor) -> dict[str, float]:
    if not len(ritz):
        return {}
    return {
        "ritz_min": float(ritz.min()),
        "ritz_max": float(ritz.max()),
        "ritz_negative": float((ritz < 0).sum()),
        "ritz_smallest": float(ritz.abs().min()),
    }


def shares(model: nn.Module, index: Tensor) -> list[dict[str, Any]]:
    """How many entries of each parameter were selected."""
    rows, start = [], 0
    for name, shape in layout_of(model):
        count = shape.numel()
        selected = int(((index >= start) & (index < start + count)).sum())
        rows.append({"parameter": name, "entries": count, "selected": selected, "share": selected / count})
        start += count
    return rows


def _warn(case: Case) -> None:
    if any(isinstance(module, nn.ReLU) for module in case.model.modules()):
        case.notes.append("ReLU has no curvature at its kinks, which the Hessian leaves out; gelu, silu, tanh have it")


# ---------------------------------------------------------------------------------------------- pictures


def _axes(width: float = 5.0, height: float = 3.4) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def draw_solver(history: Sequence[Mapping[str, float]]) -> Any:
    figure, axes = _axes()
    axes.semilogy([row["products"] for row in history], [row["residual"] for row in history], color="#4c78a8")
    axes.set(xlabel="products with the curvature", ylabel="|A x - b| / |b|")
    return figure


def draw_search(chosen: Chosen) -> Any:
    figure, axes = _axes()
    strengths = [row["strength"] for row in chosen.rows]
    axes.plot(strengths, [row["retain_accuracy"] for row in chosen.rows], "o-", color="#4c78a8", label="what stays")
    axes.plot(strengths, [row["forget_accuracy"] for row in chosen.rows], "o-", color="#f58518", label="what goes")
    axes.axvline(chosen.strength, color="0.5", linestyle="--")
    axes.set(xlabel="strength", ylabel="training accuracy", xscale="log")
    axes.legend(frameon=False)
    return figure


def draw_spectrum(ritz: Sequence[float]) -> Any:
    figure, axes = _axes()
    axes.plot(ritz, range(len(ritz)), "o", color="#4c78a8", markersize=4)
    axes.axvline(0, color="0.5", linewidth=1)
    axes.set(xlabel="Ritz value of the restricted curvature", ylabel="number", xscale="symlog")
    return figure


def draw_shares(rows: Sequence[Mapping[str, Any]]) -> Any:
    figure, axes = _axes(5.0, 1.0 + 0.3 * len(rows))
    axes.barh([row["parameter"] for row in rows], [row["share"] for row in rows], color="#4c78a8")
    axes.invert_yaxis()
    axes.set(xlabel="share of its entries that may move")
    return figure
