"""How fast nearby runs of training part."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch

from raycipe.components.measures._curvature import Precision
from raycipe.components.measures._dynamics import Descent, benettin, kaplan_yorke, map_of
from raycipe.framework.arguments import Count, Positive, Seed
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator


@register
class LyapunovSpectrum(Measure):
    """The largest Lyapunov exponents of the optimizer, along its own trajectory from the weights on.

    Training goes on, on a copy. A frame Q of k directions is carried along by the derivative of each step on its own
    minibatch, V = J_t Q; Q R = V; exponent_i = (1 / steps) sum_t ln |R_ii|, per step. `largest` > 0: runs that start
    side by side part exponentially. `dimension` is Kaplan and Yorke's, told only where the sum of the k exponents is
    negative (otherwise k is too small to tell).

    Args:
        k: how many exponents
        steps: steps over which they are averaged
        burn_in: steps before, in which the frame turns to the fastest directions
        qr_every: steps between orthonormalizations
        map: train carries the recipe's momentum along, gd leaves it out
        lr: learning rate (null: the one in force at the weights' step; only for sgd)
        batch_size: examples of a step (null: the training's)
        precision: number format of all derivatives
        seed: draws minibatches and the frame

    Reference:
        G. Benettin, L. Galgani, A. Giorgilli, J.-M. Strelcyn, Lyapunov Characteristic Exponents for Smooth Dynamical
        Systems, Meccanica, 1980; J. Kaplan, J. Yorke, Chaotic Behavior of Multidimensional Difference Equations, 1979.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [4]}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.5}
        measures: [{type: lyapunov_spectrum, k: 3, steps: 20, burn_in: 5}]
    """

    needs: ClassVar[tuple[str, ...]] = ("model", "task", "splits")
    in_training: ClassVar[bool] = False
    reports: ClassVar[tuple[str, ...]] = ("largest", "sum", "positive", "dimension", "lr")

    def __init__(
        self,
        k: Count = 10,
        steps: Count = 1000,
        burn_in: Count = 100,
        qr_every: Count = 1,
        map: Literal["train", "gd"] = "train",
        lr: Positive | None = None,
        batch_size: Count | None = None,
        precision: Precision = "float64",
        seed: Seed = 0,
    ) -> None:
        self.k = k
        self.steps = steps
        self.burn_in = burn_in
        self.qr_every = qr_every
        self.map = map
        self.lr = lr
        self.batch_size = batch_size
        self.precision: Precision = precision
        self.seed = seed

    def measure(self, trained: Trained) -> Measured:
        rule = map_of(trained, self.lr, self.map == "train")
        path = Descent(trained, rule, self.batch_size, self.seed, self.precision)
        if self.k > path.size:
            raise Skipped(f"the map has {path.size} exponents, fewer than k = {self.k}")
        stream = torch_generator(self.seed, "lyapunov_spectrum")
        frame = torch.randn(self.k, path.size, generator=stream, dtype=torch.float64).to(path.point)
        found = benettin(iter(path), frame, self.steps, self.burn_in, self.qr_every)
        values = {
            "largest": float(found.values[0]),
            "sum": float(found.values.sum()),
            "positive": float((found.values > 0).sum()),
            "lr": rule.lr,
        }
        if values["sum"] < 0 or self.k == path.size:
            values["dimension"] = kaplan_yorke(found.values)[0]
        rows: list[dict[str, Any]] = [{"rank": i + 1, "exponent": float(v)} for i, v in enumerate(found.values)]
        history = found.history.tolist()
        return Measured(values=values, tables={"exponents": rows}, figures={"convergence": lambda: _draw(history)})


def _draw(history: list[list[float]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(history, linewidth=0.9)
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="step", ylabel="exponents so far, per step")
    return figure
