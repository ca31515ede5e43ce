"""Many runs of one minimax recipe side by side: independent seeds, and for each of them twins whose training split
differs in one example. All runs are one batched computation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raycipe.components.measures._neighbours import seen_by_runs
from raycipe.framework.comm import LocalComm
from raycipe.framework.contracts import Batch, Data, Point, Problem, Saddle, SaddleTask, Skipped, TensorSplit, Trained
from raycipe.framework.contracts.saddle import Draw
from raycipe.framework.registry import build
from raycipe.framework.streams import key, torch_generator
from raycipe.framework.training.order import Order
from raycipe.framework.training.players import FlatPlayers, noisy_layers

MAX_FLOATS = 200_000_000  # of all runs' points together


@dataclass
class World:
    """What one seed trains on."""

    seed: int
    saddle: Saddle
    train: Batch  # tensors of the training split, with `id`
    fresh: Batch  # an example for each twin, drawn independently
    facts: Mapping[str, Any]


class SideBySide(Problem):
    """The problem of seeds x (1 + twins) runs; points are (runs, d). Run 0 of a seed has the split as it is, twin j has
    example `replaced[seed, j]` replaced. Batches, and all random numbers, are those of the seed."""

    def __init__(
        self, task: SaddleTask, worlds: Sequence[World], replaced: Tensor, batch_size: int, shuffle: bool, total: int
    ) -> None:
        self.task, self.worlds, self.replaced = task, worlds, replaced  # (seeds, twins)
        self.saddle = worlds[0].saddle
        self.flat = FlatPlayers(task, self.saddle)
        self.seeds, self.per_seed = replaced.shape[0], replaced.shape[1] + 1
        self.num_examples = len(worlds[0].train["id"])
        self.step, self.total_steps, self.size, self.evaluations = 0, total, batch_size, 0
        self.comm = LocalComm()
        self.orders = [Order(self.num_examples, batch_size, world.seed, shuffle) for world in worlds]
        self.generators: dict[str, list[torch.Generator]] = {}
        self.constants = {
            name: self._spread(torch.stack([dict(world.saddle.named_buffers())[name] for world in worlds]))
            for name, _ in self.saddle.named_buffers()
        }
        starts = [FlatPlayers(task, world.saddle).read() for world in worlds]
        self.w, self.v = (self._spread(torch.stack([start[i] for start in starts])) for i in (0, 1))
        if self.w.numel() + self.v.numel() > MAX_FLOATS:
            raise Skipped(f"{len(self.w)} runs of {self.w.shape[1] + self.v.shape[1]:,} numbers do not fit in memory")
        self.tables = {name: torch.stack([world.train[name] for world in worlds]) for name in worlds[0].train}
        self.strangers = {name: torch.stack([world.fresh[name] for world in worlds]) for name in worlds[0].train}
        self.batch: Batch = {}

    def _spread(self, values: Tensor) -> Tensor:
        """(seeds, ...) -> (runs, ...): every run of a seed gets its values."""
        return values.unsqueeze(1).expand(-1, self.per_seed, *values.shape[1:]).flatten(0, 1)

    # ------------------------------------------------------------------------------------------ batches

    def draw(self) -> None:
        self.batch = self.examples(torch.stack([order.next()[1] for order in self.orders]))

    def examples(self, ids: Tensor) -> Batch:
        """The examples (seeds, batch) as each run sees them, (runs, batch, ...)."""
        return seen_by_runs(self.tables, self.strangers, self.replaced, ids, self.per_seed)

    # ------------------------------------------------------------------------------------------ the problem

    def point(self) -> Point:
        return self.w, self.v

    def move(self, w: Tensor, v: Tensor) -> None:
        self.w, self.v = w, v

    def project(self, w: Tensor, v: Tensor) -> Point:
        return self.task.project(self.saddle, w, v)

    def gradients(self, w: Tensor, v: Tensor) -> Point:
        """Runs do not see each other: the gradient of the sum over runs holds each run's own."""
        self.evaluations += 1
        with torch.enable_grad():
            leaves = w.detach().requires_grad_(), v.detach().requires_grad_()
            values = torch.vmap(self.flat.value, randomness="error")(*leaves, self.batch, self.constants)
            found = torch.autograd.grad(values.mean(-1).sum(), leaves)
        return found[0], found[1]

    def sample_gradients(self, w: Tensor, v: Tensor) -> Point:
        self.evaluations += 1
        found: Point = torch.vmap(self.flat.sample_gradients)(w, v, self.batch, self.constants)
        return found

    def values(self, w: Tensor, v: Tensor) -> Tensor:
        self.evaluations += max(w.shape[-2], v.shape[-2])

        def of_run(w: Tensor, v: Tensor, batch: Batch, constants: Mapping[str, Tensor]) -> Tensor:
            dims = tuple(0 if len(flat) > 1 else None for flat in (w, v))
            points = [flat if len(flat) > 1 else flat[0] for flat in (w, v)]
            if dims == (None, None):
                return self.flat.value(points[0], points[1], batch, constants).unsqueeze(0)
            inner = torch.vmap(self.flat.value, in_dims=(*dims, None, None))
            found: Tensor = inner(points[0], points[1], batch, constants)
            return found

        with torch.no_grad():
            found: Tensor = torch.vmap(of_run)(w, v, self.batch, self.constants)
        return found

    def random(self, name: str, draw: Draw) -> Tensor:
        if name not in self.generators:
            self.generators[name] = [torch_generator(world.seed, name) for world in self.worlds]
        return self._spread(torch.stack([draw(generator) for generator in self.generators[name]]))

    def add_up(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tensors

    def probe(self, count: int) -> Point:
        ids = torch.arange(min(count, self.num_examples)).expand(self.seeds, -1)
        found: Point = torch.vmap(self.flat.sample_gradients)(self.w, self.v, self.examples(ids), self.constants)
        return found

    @property
    def noisy_layers(self) -> list[str]:
        return noisy_layers(self.saddle)

    def warn(self, text: str) -> None:
        """The run itself has told it."""


@dataclass
class Paths:
    """Points of all runs at some steps: step -> (w, v), each (seeds, 1 + twins, d)."""

    problem: SideBySide
    steps: list[int]
    last: list[Point]
    mean: list[Point]  # the average that the optimizer keeps; the last iterate where it keeps none
    seconds: float


def simulate(trained: Trained, seeds: int, twins: int, points: int) -> Paths:
    """Train the recipe of a run again, `seeds` times, each with `twins` twins. Raises Skipped where it can't."""
    import time

    wanted = ("twins", seeds, twins, points)
    if wanted in trained.cache:
        found: Paths = trained.cache[wanted]
        return found
    started = time.monotonic()
    with torch.random.fork_rng():
        problem = _problem(trained, seeds, twins)
        optimizer: Any = _optimizer(trained, problem)
        paths = Paths(problem, _steps(problem.total_steps, points), [], [], 0.0)
        _run(problem, optimizer, paths)
    paths.seconds = time.monotonic() - started
    trained.cache[wanted] = paths
    return paths


def _run(problem: SideBySide, optimizer: Any, paths: Paths) -> None:
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    wanted = set(paths.steps)
    for step in range(problem.total_steps):
        problem.step = step
        if optimizer.schedule is not None:
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * optimizer.schedule.factor(step, problem.total_steps)
        problem.draw()
        optimizer.step()
        if step + 1 in wanted:
            paths.last.append(_by_seed(problem, problem.point()))
            paths.mean.append(_by_seed(problem, optimizer.mean or problem.point()))


def _by_seed(problem: SideBySide, point: Point) -> Point:
    w, v = (part.clone().unflatten(0, (problem.seeds, problem.per_seed)) for part in point)  # type: ignore[no-untyped-call]
    return w, v


def _steps(total: int, points: int) -> list[int]:
    """Steps evenly spaced in the logarithm, the last one among them."""
    if points == 1:
        return [total]
    return sorted({max(1, round(math.exp(math.log(total) * i / (points - 1)))) for i in range(points)})


def _optimizer(trained: Trained, problem: SideBySide) -> Any:
    given = {"params": problem.saddle.groups()}
    optimizer: Any = build(trained.recipe["optimizer"], "optimizers", "optimizer", given, trained.facts)
    optimizer.problem = problem
    return optimizer


def _problem(trained: Trained, seeds: int, twins: int) -> SideBySide:
    task, train = trained.task, trained.recipe.get("train") or {}
    if not isinstance(task, SaddleTask):
        raise Skipped("it needs a minimax task")
    if not isinstance(trained.splits.get("train"), TensorSplit):
        raise Skipped("the training split does not lie in memory")
    if train.get("clip_norm") or train.get("accumulate", 1) > 1:
        raise Skipped("runs side by side know neither train.clip_norm nor train.accumulate")
    worlds = [_world(trained, task, number, twins) for number in range(seeds)]
    n, batch_size = len(worlds[0].train["id"]), train.get("batch_size", 64)
    if twins > n:
        raise Skipped(f"{twins} twins need as many training examples, and there are {n}")
    total = train.get("steps") or (train.get("epochs") or 10) * (n // batch_size)
    chosen = [torch.randperm(n, generator=torch_generator(world.seed, "twins"))[:twins] for world in worlds]
    return SideBySide(task, worlds, torch.stack(chosen), batch_size, train.get("shuffle", True), total)


def _world(trained: Trained, task: SaddleTask, number: int, twins: int) -> World:
    """Seed 0 is the run's own."""
    seed = trained.seed if number == 0 else key(trained.seed, "side by side", number)
    data: Data = build(trained.recipe["data"], "data", "data")
    splits = data.load(seed)
    torch.manual_seed(key(seed, "init"))
    model = build(trained.recipe["model"], "models", "model", facts=data.facts)
    saddle: Any = task.trained(model, splits)
    train: Any = splits["train"]
    batch = {**train.tensors, "id": torch.arange(len(train))}
    return World(seed, saddle, batch, _strangers(data, splits, seed, twins), data.facts)


def _strangers(data: Data, splits: Mapping[str, Any], seed: int, count: int) -> Batch:
    """Examples that are not in the training split: of the test or validation split, else a training split of another
    seed (of data that are drawn, not read)."""
    held_out = splits.get("test") or splits.get("val") or data.load(key(seed, "strangers"))["train"]
    if not isinstance(held_out, TensorSplit) or len(held_out) < count:
        raise Skipped(f"{count} twins need as many examples outside the training split")
    return {**{name: values[:count] for name, values in held_out.tensors.items()}, "id": torch.arange(count)}
