"""Bias and spread of an estimator of the gradient."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from raycipe.components.measures._risks import saddle_of, whole_split
from raycipe.components.measures._twins import SideBySide, World
from raycipe.framework.arguments import Count, Positive
from raycipe.framework.contracts import Estimate, Measure, Measured, Point, Problem, Skipped, Trained
from raycipe.framework.registry import build, register
from raycipe.framework.streams import key
from raycipe.framework.training.players import FlatPlayers

AT_ONCE = 200  # draws that are computed together


@register
class EstimatorBias(Measure):
    """How biased and how scattered the optimizer's estimates of the gradient are at the trained point, over batches and
    directions.

    bias = |mean of g^ - g| for the gradient g of the whole training split, both players together; `bias_floor` is the
    standard error of that mean, below which it says nothing. `second_moment_ratio` = E|g^|² / E|g_batch|²;
    `lipschitz_ratio` = |b(x) - b(x')| / |x - x'| for the bias b at the trained point and one at distance `distance`,
    with the same random numbers: the Lipschitz-type condition of the theory of biased gradients.

    Args:
        draws: batches (and directions) drawn
        distance: how far the second point lies away, in a random direction

    Recipe:
        data: {type: gauss_auc, examples: 64, dim: 4}
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: clipped_sgda, lr: 1.0, tau: 0.5, schedule: theory}
        measures: [{type: estimator_bias, draws: 400}]
    """

    reports: ClassVar[tuple[str, ...]] = (
        "bias", "bias_w", "bias_v", "bias_floor", "second_moment_ratio", "clip_fraction", "lipschitz_ratio"
    )  # fmt: skip

    def __init__(self, draws: Count = 10_000, distance: Positive = 0.1) -> None:
        self.draws = draws
        self.distance = distance

    def measure(self, trained: Trained) -> Measured:
        task, saddle = saddle_of(trained)
        if not trained.recipe["optimizer"]:
            raise Skipped("the recipe has no optimizer")
        flat = FlatPlayers(task, saddle)
        here = flat.read()
        direction = torch.randn(sum(map(len, here)), dtype=saddle.dtype, generator=trained.generator("estimator_bias"))
        step = self.distance * direction / direction.norm()
        there = (here[0] + step[: len(here[0])], here[1] + step[len(here[0]) :])
        with torch.random.fork_rng():
            first, second = (self._estimates(trained, point) for point in (here, there))
        biases = [found.mean - _exact(flat, point, trained) for found, point in ((first, here), (second, there))]
        cut = len(here[0])
        values = {
            "bias": float(biases[0].norm()),
            "bias_w": float(biases[0][:cut].norm()),
            "bias_v": float(biases[0][cut:].norm()),
            "bias_floor": float(((first.square - first.mean.square().sum()).clamp(min=0) / first.count).sqrt()),
            "second_moment_ratio": float(first.square / first.batch_square),
            "lipschitz_ratio": float((biases[1] - biases[0]).norm() / step.norm()),
        }
        if first.clipped is not None:
            values["clip_fraction"] = first.clipped
        return Measured(values=values)

    def _estimates(self, trained: Trained, point: Point) -> _Moments:
        moments = _Moments()
        task, saddle = saddle_of(trained)
        batch = whole_split(trained, "train")
        size = min((trained.recipe.get("train") or {}).get("batch_size", 64), len(batch["id"]))
        given = {"params": saddle.groups()}
        optimizer: Any = build(trained.recipe["optimizer"], "optimizers", "optimizer", given, trained.facts)
        none = {name: values[:0] for name, values in batch.items()}
        for turn in range(-(-self.draws // AT_ONCE)):
            count = min(AT_ONCE, self.draws - turn * AT_ONCE)
            seeds = [key(trained.seed, "estimator_bias", turn, number) for number in range(count)]
            worlds = [World(seed, saddle, batch, none, trained.facts) for seed in seeds]
            problem = SideBySide(task, worlds, torch.zeros(count, 0, dtype=torch.int64), size, True, 1)
            problem.draw()
            w, v = (part.expand(count, -1) for part in point)
            problem.move(w, v)
            exact = problem.gradients(w, v)
            if turn == 0:
                _prepare(optimizer, problem)
            moments.add(optimizer.gradients.estimate(problem, w, v), exact)
        return moments


class _Moments:
    """Running mean and second moment of both players' estimates together."""

    def __init__(self) -> None:
        self.count = 0
        self.sum: Any = 0.0
        self.squares: Any = 0.0
        self.batch_squares: Any = 0.0
        self.clips: list[float] = []

    def add(self, estimate: Estimate, exact: Point) -> None:
        both = torch.cat([estimate.w, estimate.v], dim=-1).double()
        self.count += len(both)
        self.sum = self.sum + both.sum(0)
        self.squares = self.squares + both.square().sum()
        self.batch_squares = self.batch_squares + torch.cat(exact, dim=-1).double().square().sum()
        if "clip_w" in estimate.info:
            self.clips.append(float(estimate.info["clip_w"] + estimate.info["clip_v"]) / 2)

    @property
    def mean(self) -> Tensor:
        return self.sum / self.count

    @property
    def square(self) -> Tensor:
        return self.squares / self.count

    @property
    def batch_square(self) -> Tensor:
        return self.batch_squares / self.count

    @property
    def clipped(self) -> float | None:
        return sum(self.clips) / len(self.clips) if self.clips else None


def _prepare(optimizer: Any, problem: Problem) -> None:
    todo = [optimizer.gradients]
    while todo:
        estimator = todo.pop()
        estimator.prepare(problem)
        todo += estimator.nested()


def _exact(flat: FlatPlayers, point: Point, trained: Trained) -> Tensor:
    batch = whole_split(trained, "train")
    gradient = torch.func.grad(lambda w, v: flat.value(w, v, batch).mean(), argnums=(0, 1))(*point)
    return torch.cat(gradient).double()
