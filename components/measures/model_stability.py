"""How far one training example moves a trained model, and what compression adds to it."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from raycipe.components.measures._side_by_side import Paths, losses, simulate
from raycipe.framework.arguments import Count
from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import register


@register
class ModelStability(Measure):
    """On-average model stability: trains the recipe beside twins that differ in one training example.

    stability = mean over seeds and twins i of |w - w(i)|², where run and twin share start, order and the compressor's
    random numbers. If the optimizer compresses, all is done a second time without: `extra` is what compression adds,
    `relative` the same as a share of the uncompressed figure. The generalization gap (test loss minus training loss)
    is followed, too: `gap_deviation` is how far its curve lies from the uncompressed one at most, as a share of that
    one's largest gap. `buffer_energy` is the mean of |e|² at the end. All runs are one batched computation with the
    recipe's own optimizer, on as many simulated workers as the recipe has.

    Args:
        twins: replaced examples, for each seed
        seeds: independent repetitions: other data (or splits), orders and random numbers
        points: steps at which the curves are taken, evenly spaced in the logarithm

    Reference:
        Y. Lei, Y. Ying, Fine-Grained Analysis of Stability and Generalization for SGD, ICML 2020.

    Recipe:
        data: {type: synthetic_logistic, examples: 40, features: 5, test: 50}
        model: {type: linear, zero_init: true}
        task: classification
        optimizer: {type: ef_sgd, lr: 1.0, compressor: {type: topk, ratio: 0.2, scope: global}}
        train: {steps: 20, batch_size: 1}
        measures: [{type: model_stability, twins: 3, seeds: 2, points: 4}]
    """

    needs: ClassVar[tuple[str, ...]] = ("task", "splits")
    reports: ClassVar[tuple[str, ...]] = (
        *("stability", "standard_error", "gap", "uncompressed", "extra", "relative", "gap_deviation", "buffer_energy"),
    )

    def __init__(self, twins: Count = 8, seeds: Count = 12, points: Count = 24) -> None:
        self.twins = twins
        self.seeds = seeds
        self.points = points

    def measure(self, trained: Trained) -> Measured:
        ours = simulate(trained, self.seeds, self.twins, self.points)
        rows = [_row(trained, ours, place) for place in range(len(ours.steps))]
        values = {name: rows[-1][name] for name in ("stability", "standard_error", "gap")}
        if "compressor" in (trained.recipe.get("optimizer") or {}):
            plain = simulate(trained, self.seeds, self.twins, self.points, compress=False)
            for place, row in enumerate(rows):
                other = _row(trained, plain, place)
                row.update({f"uncompressed_{name}": other[name] for name in ("stability", "gap")})
            values.update(compared(rows), buffer_energy=ours.energy)
        return Measured(values, {"stability": lambda: _draw(rows)}, {"curve": rows})


def distance_of_twins(weights: Tensor) -> Tensor:
    """(seeds, 1 + twins, d) -> (seeds,): mean square distance of a seed's twins from its run."""
    return (weights[:, 1:] - weights[:, :1]).double().square().sum(-1).mean(-1)


def compared(rows: list[dict[str, Any]]) -> dict[str, float]:
    """What compression adds to the stability at the end, and to the gap at worst."""
    last = rows[-1]
    extra, plain = last["stability"] - last["uncompressed_stability"], last["uncompressed_stability"]
    largest = max(abs(row["uncompressed_gap"]) for row in rows)
    away = max(abs(row["gap"] - row["uncompressed_gap"]) for row in rows)
    values = {"uncompressed": plain, "extra": extra}
    if plain > 0:
        values["relative"] = extra / plain
    if largest > 0:
        values["gap_deviation"] = away / largest
    return values


def _row(trained: Trained, paths: Paths, place: int) -> dict[str, Any]:
    assert trained.task is not None
    weights = paths.weights[place]
    by_seed = distance_of_twins(weights)
    train, test = (losses(paths, trained.task, split, weights[:, 0]) for split in ("train", "test"))
    error = float(by_seed.std() / len(by_seed) ** 0.5) if len(by_seed) > 1 else 0.0
    return {
        "step": paths.steps[place],
        "stability": float(by_seed.mean()),
        "standard_error": error,
        "train_loss": float(train.mean()),
        "gap": float((test - train).mean()),
    }


def _draw(rows: list[dict[str, Any]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = [row["step"] for row in rows]
    for axes, name, words in ((left, "stability", "squared distance of twins"), (right, "gap", "test - training loss")):
        axes.plot(steps, [row[name] for row in rows], marker=".", label="as in the recipe")
        if f"uncompressed_{name}" in rows[0]:
            axes.plot(steps, [row[f"uncompressed_{name}"] for row in rows], marker=".", label="uncompressed")
        axes.set(xscale="log", xlabel="step", ylabel=words)
        axes.legend()
    left.set_yscale("log" if torch.tensor([row["stability"] for row in rows]).min() > 0 else "linear")
    return figure
