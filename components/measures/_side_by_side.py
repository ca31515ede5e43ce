"""Many runs of one recipe side by side: independent seeds, and for each of them twins whose training split differs in
one example. All runs of a worker are one batched computation, and its optimizer is the recipe's own.

The weights of all runs are one parameter (runs, d); compressors act on each row, with the random numbers of its seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from raycipe.components.measures._neighbours import seen_by_runs
from raycipe.framework.comm import Comm, LocalComm, SimulatedWorld
from raycipe.framework.contracts import (
    Batch,
    Compressor,
    Data,
    Draw,
    OptimizerRun,
    Plan,
    Skipped,
    State,
    Task,
    TensorSplit,
    Trained,
)
from raycipe.framework.registry import build
from raycipe.framework.streams import key, torch_generator
from raycipe.framework.training.order import Order, share
from raycipe.framework.training.simulated import OneAtATime

MAX_FLOATS = 200_000_000  # of all runs' weights together
BATCH_SIZE = 64  # where the recipe says nothing


class Rows(Compressor):
    """Another compressor on each row of (runs, d); rows of one seed share their random numbers."""

    type_name = "rows"

    def __init__(self, inner: Compressor, seeds: Sequence[int], shapes: Sequence[Sequence[int]]) -> None:
        self.inner, self.seeds = inner, list(seeds)
        self.width = sum(math.prod(shape) for shape in shapes)
        self.row = inner.plan(self.width, shapes)

    def plan(self, numel: int, shapes: Sequence[Sequence[int]] = ()) -> Plan:
        return Plan(numel, tuple(map(tuple, shapes)), 8 * numel)

    def encode_(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, body: Tensor) -> None:
        groups = tensor.view(len(self.seeds), -1, self.width)
        sent = torch.stack([self._of_seed(seed, rows, draw) for seed, rows in zip(self.seeds, groups, strict=True)])
        body.copy_(sent.double().view(-1).view(torch.uint8))
        tensor -= sent.view(-1)

    def _of_seed(self, seed: int, rows: Tensor, draw: Draw) -> Tensor:
        own = Draw(seed, draw.rank, draw.step, draw.fragment)
        return self.inner.of_rows(rows, self.row, own) if self.inner.sends(own) else torch.zeros_like(rows)

    def decode_(self, body: Tensor, plan: Plan, out: Tensor, weight: float = 1.0) -> None:
        out.add_(body.clone().view(torch.float64).to(out.dtype), alpha=weight)

    def alpha(self, plan: Plan) -> float | None:
        return self.inner.alpha(self.row)


@dataclass
class World:
    """What one seed trains on."""

    seed: int
    model: nn.Module
    train: Batch
    test: Batch
    order: Order


@dataclass
class Paths:
    """The common weights of all runs at some steps, each (seeds, 1 + twins, d), and what the optimizers hold at the
    end: the mean over runs and workers of |e|²."""

    worlds: list[World]
    steps: list[int]
    weights: list[Tensor] = field(default_factory=list)
    energy: float = 0.0


def simulate(trained: Trained, seeds: int, twins: int, points: int, compress: bool = True) -> Paths:
    """Train the recipe of a run again, `seeds` times, each with `twins` twins, without compression unless `compress`.

    Raises Skipped where it can't.
    """
    wanted = ("side by side", seeds, twins, points, compress)
    if wanted in trained.cache:
        found: Paths = trained.cache[wanted]
        return found
    with torch.random.fork_rng():
        worlds = [_world(trained, number) for number in range(seeds)]
        runs = _Runs(trained, worlds, twins, compress)
        paths = Paths(worlds, _steps(runs.total_steps, points))
        if runs.workers == 1:
            runs.train(LocalComm(), paths)
        else:
            SimulatedWorld(runs.workers, OneAtATime()).run(lambda comm: runs.train(comm, paths))
    trained.cache[wanted] = paths
    return paths


class _Runs:
    """Run 0 of a seed has the training split as it is, twin j has example `replaced[seed, j]` replaced."""

    def __init__(self, trained: Trained, worlds: Sequence[World], twins: int, compress: bool) -> None:
        self.trained, self.worlds, self.compress = trained, worlds, compress
        self.recipe, train = trained.recipe, trained.recipe.get("train") or {}
        self.workers = _workers(trained.recipe)
        self.seeds, self.per_seed = len(worlds), 1 + twins
        self.task: Any = trained.task
        self.batch_size, count = int(train.get("batch_size", BATCH_SIZE)), len(worlds[0].train["id"])
        self.total_steps = int(train.get("steps") or (train.get("epochs") or 10) * worlds[0].order.steps_per_epoch)
        if twins > min(count, len(worlds[0].test["id"])):
            raise Skipped(f"{twins} twins need as many examples of `train` and of `test`")
        chosen = [torch.randperm(count, generator=torch_generator(world.seed, "twins"))[:twins] for world in worlds]
        self.replaced = torch.stack(chosen)
        self.tables = {name: torch.stack([world.train[name] for world in worlds]) for name in worlds[0].train}
        self.strangers = {name: torch.stack([world.test[name][:twins] for world in worlds]) for name in worlds[0].test}
        self.model = worlds[0].model
        self.shapes = {name: parameter.shape for name, parameter in self.model.named_parameters()}
        self.start = torch.stack([flat(world.model) for world in worlds]).repeat_interleave(self.per_seed, 0)
        if self.start.numel() * self.workers > MAX_FLOATS:
            raise Skipped(f"{len(self.start)} runs of {self.start.shape[1]:,} weights do not fit in memory")
        self.gradients: Callable[[Tensor, Batch], Tensor] = vmap(grad(self._loss))

    def _loss(self, weights: Tensor, batch: Batch) -> Tensor:
        return loss_at(self.model, self.shapes, self.task, weights, batch)

    def train(self, comm: Comm, paths: Paths) -> None:
        """One worker's part."""
        weights = nn.Parameter(self.start.clone())
        optimizer = self._optimizer(weights)
        share_size = [0]
        seed = self.worlds[0].seed
        closure = lambda: torch.zeros(())  # noqa: E731
        optimizer.prepare(OptimizerRun(self.total_steps, comm, seed, closure, None, lambda: share_size[0]))
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        orders = [world.order.at(0, 0) for world in self.worlds]
        wanted = set(paths.steps)
        for step in range(self.total_steps):
            ids = torch.stack([share(order.next()[1], comm.rank, comm.world_size) for order in orders])
            share_size[0] = ids.shape[1]
            if optimizer.schedule is not None:
                for group, rate in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate * optimizer.schedule.factor(step, self.total_steps)
            weights.grad = self.gradients(weights.detach(), self.examples(ids))
            optimizer.step()
            if step + 1 == self.total_steps:
                optimizer.finish()
            if step + 1 in wanted and comm.rank == 0:
                with optimizer.consensus():
                    paths.weights.append(weights.detach().clone().view(self.seeds, self.per_seed, -1))
        energy = comm.all_reduce(torch.tensor(_energy(optimizer) / len(self.start)), "mean")
        paths.energy = float(energy)

    def examples(self, ids: Tensor) -> Batch:
        """The examples (seeds, batch) as each run sees them, (runs, batch, ...)."""
        return seen_by_runs(self.tables, self.strangers, self.replaced, ids, self.per_seed)

    def _optimizer(self, weights: nn.Parameter) -> Any:
        """The recipe's optimizer on all runs at once; what it compresses with was set for one of them."""
        section = self.recipe["optimizer"]
        section = {"type": section} if isinstance(section, str) else dict(section)
        shapes = list(self.shapes.values())
        single = build(section, "optimizers", "optimizer", {"params": [torch.zeros(shape) for shape in shapes]})
        compressor: Compressor | None = getattr(single, "compressor", None)
        if compressor is None:
            return build(section, "optimizers", "optimizer", {"params": [weights]})
        if compressor.passes > 1 or int(section.get("fragments") or 1) > 1:
            raise Skipped("runs side by side know neither powersgd nor fragments")
        plain = {**section, "compressor": {"type": "identity"}, "match": None, "collective": "all_gather"}
        if section["type"] == "local_sgd":
            plain = section
        optimizer: Any = build(plain, "optimizers", "optimizer", {"params": [weights]})
        if self.compress and section["type"] != "local_sgd":
            optimizer.compressor = Rows(compressor, [world.seed for world in self.worlds], shapes)
        return optimizer


def loss_at(model: nn.Module, shapes: Mapping[str, Any], task: Task, weights: Tensor, batch: Batch) -> Tensor:
    """The task's loss at flat weights."""
    parts = torch.split(weights, [math.prod(shape) for shape in shapes.values()])
    named = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def called(x: Tensor) -> Any:
        return functional_call(model, named, (x,))

    return task.loss(called, batch).value  # type: ignore[arg-type]  # tasks call the model, and nothing else


def losses(paths: Paths, task: Task, split: str, weights: Tensor) -> Tensor:
    """(seeds,): the loss of each seed's own run at weights (seeds, d)."""
    model = paths.worlds[0].model
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    found = []
    with torch.no_grad():
        for world, row in zip(paths.worlds, weights, strict=True):
            batch = world.train if split == "train" else world.test
            found.append(loss_at(model, shapes, task, row, batch).double())
    return torch.stack(found)


def flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def _energy(optimizer: Any) -> float:
    errors = optimizer.buffers.get("error", []) if hasattr(optimizer, "buffers") else getattr(optimizer, "errors", [])
    return float(sum(error.double().square().sum() for error in errors))


def _steps(total: int, points: int) -> list[int]:
    """Steps evenly spaced in the logarithm, the last one among them."""
    if points == 1:
        return [total]
    return sorted({max(1, round(math.exp(math.log(total) * i / (points - 1)))) for i in range(points)})


def _workers(recipe: Mapping[str, Any]) -> int:
    resources = recipe.get("resources") or {}
    workers: Any = resources.get("simulated_workers") or resources.get("num_workers") or 1
    return int(workers[-1] if isinstance(workers, list) else workers)


def _world(trained: Trained, number: int) -> World:
    """Seed 0 is the run's own."""
    train = trained.recipe.get("train") or {}
    if trained.task is None or trained.task.saddle:
        raise Skipped("it needs a task that is no minimax problem")
    if train.get("clip_norm") or train.get("accumulate", 1) > 1 or train.get("ema"):
        raise Skipped("runs side by side know neither train.clip_norm nor train.accumulate nor train.ema")
    seed = trained.seed if number == 0 else key(trained.seed, "side by side", number)
    data: Data = build(trained.recipe["data"], "data", "data")
    splits = data.load(seed)
    if not all(isinstance(splits.get(name), TensorSplit) for name in ("train", "test")):
        raise Skipped("it needs `train` and `test` splits that lie in memory: strangers come from `test`")
    torch.manual_seed(key(seed, "init"))
    model: nn.Module = build(trained.recipe["model"], "models", "model", facts=data.facts)
    if list(model.buffers()):
        raise Skipped("runs side by side know no models with buffers, as BatchNorm has")
    batches = [{**splits[name].tensors, "id": torch.arange(len(splits[name]))} for name in ("train", "test")]  # type: ignore[attr-defined]
    shuffle, drop_last = train.get("shuffle", True), train.get("drop_last", True)
    order = Order(len(splits["train"]), int(train.get("batch_size", BATCH_SIZE)), seed, shuffle, drop_last)
    return World(seed, model, batches[0], batches[1], order)
