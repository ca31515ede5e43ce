"""How far one training example moves the result of a minimax run."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from raycipe.components.measures._twins import Paths, simulate
from raycipe.framework.arguments import Count
from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import register


@register
class SaddleStability(Measure):
    """On-average argument stability of a minimax recipe: trains it beside twins that differ in one training example.

    stability = mean over seeds and twins i of |w - w(i)|² + |v - v(i)|², where run and twin share start, order of the
    examples and all random directions. All runs are one batched computation. `stability_w` and `stability_v` are the
    players' parts, `standard_error` is that of the mean over seeds.

    Args:
        twins: replaced examples, for each seed
        seeds: independent repetitions: other data (or splits), orders and directions
        points: steps at which the curve is taken
        target: last: the last iterate; avg: the average that the optimizer keeps

    Reference:
        Y. Lei, Z. Yang, T. Yang, Y. Ying, Stability and Generalization of Stochastic Gradient Methods for Minimax
        Problems, ICML 2021.

    Recipe:
        data: {type: gauss_auc, examples: 64, dim: 4}
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 1.0, schedule: theory}
        train: {epochs: 1, batch_size: 1}
        measures: [{type: saddle_stability, twins: 3, seeds: 2}]
    """

    needs: ClassVar[tuple[str, ...]] = ("task", "splits")
    reports: ClassVar[tuple[str, ...]] = ("stability", "stability_w", "stability_v", "standard_error")

    def __init__(
        self, twins: Count = 7, seeds: Count = 8, points: Count = 24, target: Literal["last", "avg"] = "last"
    ) -> None:
        self.twins = twins
        self.seeds = seeds
        self.points = points
        self.target = target

    def measure(self, trained: Trained) -> Measured:
        paths = simulate(trained, self.seeds, self.twins, self.points)
        rows = [self._row(step, *point) for step, point in zip(paths.steps, self._points(paths), strict=True)]
        last = {name: value for name, value in rows[-1].items() if name != "step"}
        return Measured(values=last, tables={"curve": rows}, figures={"curve": lambda: _draw(rows)})

    def _points(self, paths: Paths) -> list[tuple[Tensor, Tensor]]:
        return paths.last if self.target == "last" else paths.mean

    def _row(self, step: int, w: Tensor, v: Tensor) -> dict[str, Any]:
        part_w, part_v = distance_of_twins(w), distance_of_twins(v)  # (seeds,)
        both = part_w + part_v
        error = float(both.std() / len(both) ** 0.5) if len(both) > 1 else 0.0
        means = [float(part.mean()) for part in (both, part_w, part_v)]
        return {
            "step": step,
            "stability": means[0],
            "stability_w": means[1],
            "stability_v": means[2],
            "standard_error": error,
        }


def distance_of_twins(x: Tensor) -> Tensor:
    """(seeds, 1 + twins, d) -> (seeds,): mean square distance of a seed's twins from its run."""
    return (x[:, 1:] - x[:, :1]).double().square().sum(-1).mean(-1)


def _draw(rows: list[dict[str, Any]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5))
    axes = figure.add_subplot()
    for name, words in (("stability", "both"), ("stability_w", "w"), ("stability_v", "v")):
        axes.plot([row["step"] for row in rows], [row[name] for row in rows], marker=".", label=words)
    axes.set(xscale="log", yscale="log" if torch.tensor([row["stability"] for row in rows]).max() > 0 else "linear")
    axes.set(xlabel="step", ylabel="squared distance of twins")
    axes.legend()
    return figure
