"""The dimension of the set around which training keeps moving, from the curvature of minibatches."""

from __future__ import annotations

import math
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from raycipe.components.measures._curvature import Precision, operator
from raycipe.components.measures._dynamics import Descent, Map, kaplan_yorke, log_singular_values, map_of, minibatches
from raycipe.framework.arguments import Count, Positive, Range, Seed
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.curvature import Curvature, lanczos, probe
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator

LISTED = 400  # points of the curve of partial sums


@register
class SharpnessDimension(Measure):
    """Sharpness dimension: the Kaplan-Yorke dimension of the optimizer's random dynamical system at the weights.

    One step on minibatch B is w - lr (g_B + c w), its derivative J_B = I - lr (H_B + c I), with singular values
    sigma_1 >= ... >= sigma_N. lambda_k = E_B[ln sigma_k], sorted before averaging;
    j* = max{i: lambda_1 + ... + lambda_i >= 0}; dimension = j* + (sum of the first j*) / |lambda_{j*+1}|, 0 if
    lambda_1 < 0 and N if j* = N. Directions of curvature h < 0 or > 2 / lr expand, those between contract, flat ones
    are neutral and count: in a large network `share` = dimension / N is often near 1, and only differences tell.
    `bound_term` = 2 B sqrt(4 dimension ln(1 / delta) / n), delta = n^-1/2, is the computable part of the paper's bound,
    not a certified bound.

    Args:
        method: dense forms each batch's Hessian; slq finds the quantiles of its spectrum by Lanczos quadrature; auto is
            dense up to dense_limit parameters
        map: gd leaves momentum out; heavy_ball (ours) takes the recipe's, and has 2 N exponents
        lr: learning rate (null: the one in force at the weights' step; only for sgd)
        batches: minibatches over which exponents are averaged (one if it holds all examples)
        batch_size: examples of a minibatch (null: the training's)
        attractor_points: points of the path of further training over which each exponent's supremum is taken (ours)
        attractor_gap: steps between them
        dense_limit: parameters up to which auto forms the matrix
        probes: starts of slq for each minibatch
        steps: Lanczos steps of each
        loss_bound: B, the largest value of the loss in the bound's term; 1 for the 0-1 loss
        precision: number format of all derivatives; the signs of small eigenvalues decide
        seed: draws minibatches and probes

    Reference:
        M. Tuci, C. Korkmaz, U. Simsekli, T. Birdal, Generalization at the Edge of Stability, 2026.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [4], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
        measures: [{type: sharpness_dimension, batches: 2, method: slq, steps: 20, probes: 1}]
    """

    needs: ClassVar[tuple[str, ...]] = ("model", "task", "splits")
    reports: ClassVar[tuple[str, ...]] = (
        *("dimension", "share", "lambda_1", "j_star", "expanding", "bound_term", "lr", "parameters"),
    )

    def __init__(
        self,
        method: Literal["auto", "dense", "slq"] = "auto",
        map: Literal["gd", "heavy_ball"] = "gd",
        lr: Positive | None = None,
        batches: Count = 16,
        batch_size: Count | None = None,
        attractor_points: Count = 1,
        attractor_gap: Count = 50,
        dense_limit: Annotated[int, Range(ge=1, le=20000)] = 3000,
        probes: Count = 4,
        steps: Count = 100,
        loss_bound: Positive = 1.0,
        precision: Precision = "float64",
        seed: Seed = 0,
    ) -> None:
        self.method = method
        self.map = map
        self.lr = lr
        self.batches = batches
        self.batch_size = batch_size
        self.attractor_points = attractor_points
        self.attractor_gap = attractor_gap
        self.dense_limit = dense_limit
        self.probes = probes
        self.steps = steps
        self.loss_bound = loss_bound
        self.precision: Precision = precision
        self.seed = seed

    def measure(self, trained: Trained) -> Measured:
        rule = map_of(trained, self.lr, self.map == "heavy_ball")
        examples = len(trained.splits["train"])
        drawn = minibatches(trained, self.batch_size, self.seed, "sharpness_dimension")
        size = self.batch_size or int((trained.recipe.get("train") or {}).get("batch_size") or 64)
        count = 1 if size >= examples else self.batches
        losses = [operator(trained, [batch], precision=self.precision) for batch in islice(drawn, count)]
        if not math.isfinite(losses[0].loss()):
            raise Skipped("the loss at these weights is not finite")
        exponents = self._exponents(trained, rule, losses)
        parameters = losses[0].size * (2 if rule.momentum else 1)
        mass = torch.full_like(exponents, parameters / len(exponents))
        dimension, j_star = kaplan_yorke(exponents, mass)
        delta = examples**-0.5
        values = {
            "dimension": dimension,
            "share": dimension / parameters,
            "lambda_1": float(exponents[0]),
            "j_star": j_star,
            "expanding": float(mass[exponents > 0].sum()),
            "bound_term": 2 * self.loss_bound * math.sqrt(4 * dimension * math.log(1 / delta) / examples),
            "lr": rule.lr,
            "parameters": float(losses[0].size),
        }
        rows = _curve(exponents, mass)
        return Measured(
            values=values, tables={"partial_sums": rows}, figures={"partial_sums": lambda: _draw(rows, dimension)}
        )

    def _exponents(self, trained: Trained, rule: Map, losses: list[Curvature]) -> Tensor:
        """lambda_k, descending: N of them, or quantiles of equal mass."""
        points = self._points(trained, rule, losses[0])
        total = torch.zeros(0)
        for number, loss in enumerate(losses):
            highest: Tensor | None = None
            for point in points:
                loss.move_to(point)
                here = log_singular_values(self._spectrum(loss, number), rule.lr, rule.decay, rule.momentum)
                here = here.sort(descending=True).values
                highest = here if highest is None else torch.maximum(highest, here)
            assert highest is not None  # there is at least one point
            total = highest if number == 0 else total + highest
        return total / len(losses)

    def _points(self, trained: Trained, rule: Map, loss: Curvature) -> list[Tensor]:
        points = [loss.point.clone()]
        if self.attractor_points > 1:
            path = Descent(trained, rule, self.batch_size, self.seed, self.precision)
            for _ in range(self.attractor_points - 1):
                for _ in range(self.attractor_gap):
                    path.step()
                points.append(path.point.clone())
        return points

    def _spectrum(self, loss: Curvature, number: int) -> Tensor:
        """Eigenvalues, or as many quantiles of the spectrum as there are eigenvalues."""
        is_dense = self.method == "dense" or (self.method == "auto" and loss.size <= self.dense_limit)
        if is_dense:
            return torch.linalg.eigvalsh(loss.matrix()).double().cpu()
        runs = []
        for run in range(self.probes):
            stream = torch_generator(self.seed, "sharpness_dimension", number, run)
            runs.append(
                lanczos(loss.product, probe(loss.size, stream, "rademacher", loss.dtype, loss.device), self.steps)
            )
        values = torch.cat([run.values for run in runs])
        return quantiles(values, torch.cat([run.weights for run in runs]), min(loss.size, 10**6))


def quantiles(values: Tensor, weights: Tensor, count: int) -> Tensor:
    """`count` values of equal mass of the measure with these atoms: its inverse distribution at (r + 1/2) / count."""
    order = values.argsort()
    reached = torch.cumsum(weights[order] / weights.sum(), 0)
    wanted = (torch.arange(count, dtype=reached.dtype) + 0.5) / count
    place = torch.searchsorted(reached, wanted).clamp(max=len(values) - 1)
    return values[order][place].double().cpu()


def _curve(exponents: Tensor, mass: Tensor) -> list[dict[str, Any]]:
    places = torch.unique(torch.linspace(0, len(exponents) - 1, min(LISTED, len(exponents))).round().long())
    sums, counts = torch.cumsum(mass * exponents, 0), torch.cumsum(mass, 0)
    columns = [column[places].tolist() for column in (counts, exponents, sums)]
    names = ("index", "exponent", "partial_sum")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _draw(rows: list[dict[str, Any]], dimension: float) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot([row["index"] for row in rows], [row["partial_sum"] for row in rows])
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.axvline(dimension, color="#f58518", linestyle="--", label=f"dimension {dimension:.4g}")
    axes.set(xlabel="number of exponents", ylabel="sum of exponents")
    axes.legend()
    return figure
