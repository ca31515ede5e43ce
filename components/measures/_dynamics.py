"""Training as a random dynamical system: its minibatches, its map and derivative, exponents and dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from raycipe.components.measures._curvature import Precision, operator, optimizer_of, rate
from raycipe.framework.contracts import Skipped, Trained
from raycipe.framework.curvature import Curvature
from raycipe.framework.splits import Batch, StreamSplit
from raycipe.framework.streams import torch_generator

# ---------------------------------------------------------------------------------------------- dimensions


def kaplan_yorke(exponents: Tensor, masses: Tensor | None = None) -> tuple[float, float]:
    """(dimension, j*) of exponents in descending order: j* + (sum of the first j*) / |the next one|.

    j* is the largest number of exponents whose sum is not negative; with masses (each stands for so many), their mass.
    """
    z = exponents.double()
    mass = torch.ones_like(z) if masses is None else masses.double()
    if len(z) == 0 or float(z[0]) < 0:
        return 0.0, 0.0
    sums, counts = torch.cumsum(mass * z, 0), torch.cumsum(mass, 0)
    last = int((sums >= 0).nonzero()[-1, 0])
    if last == len(z) - 1:
        return float(counts[-1]), float(counts[-1])
    return float(counts[last] + sums[last] / z[last + 1].abs()), float(counts[last])


def log_singular_values(curvature: Tensor, lr: float, decay: float, momentum: float, eps: float = 1e-12) -> Tensor:
    """ln sigma of the derivative of one step, for each eigenvalue h of the batch's Hessian, not sorted.

    Gradient descent: |1 - lr (h + decay)|. With momentum b each h gives the two singular values of
    [[1 + b - lr (h + decay), -b], [1, 0]], whose product is b and whose squares sum to the entries'; (..., 2 n).
    """
    factor = 1 - lr * (curvature.double() + decay)
    if momentum == 0:
        return torch.log(factor.abs() + eps)
    squares = (factor + momentum) ** 2 + momentum**2 + 1
    larger = (squares + (squares**2 - 4 * momentum**2).clamp(min=0).sqrt()) / 2  # sigma_1²
    first = torch.log(larger) / 2
    return torch.cat([first, math.log(momentum) - first], dim=-1)


# ---------------------------------------------------------------------------------------------- exponents along a path

Derivative = Callable[[Tensor], Tensor]  # (k, n) -> (k, n), each row multiplied by the map's derivative


class Exponents(NamedTuple):
    """Finite-time Lyapunov exponents, descending, and their running means (readings, k)."""

    values: Tensor
    history: Tensor


def benettin(path: Iterator[Derivative], frame: Tensor, steps: int, burn_in: int, qr_every: int = 1) -> Exponents:
    """Lyapunov exponents by Benettin's method: carry a frame (k, n) along, orthonormalize, add the logs of its growth.

    `path` yields the derivative at each point that the system passes.
    """
    frame = _orthonormal(frame)[0]
    sums = torch.zeros(len(frame), dtype=torch.float64)
    history = []
    for number, derivative in zip(range(burn_in + steps), path, strict=False):
        frame = derivative(frame)
        if (number + 1) % qr_every == 0 or number + 1 in (burn_in, burn_in + steps):
            frame, growth = _orthonormal(frame)
            if number >= burn_in:
                sums += growth.log().double().cpu()
                history.append(sums / (number + 1 - burn_in))
    order = sums.argsort(descending=True)
    return Exponents(sums[order] / steps, torch.stack(history)[:, order])


def _orthonormal(rows: Tensor) -> tuple[Tensor, Tensor]:
    q, r = torch.linalg.qr(rows.T)
    return q.T.contiguous(), r.diagonal().abs()


# ---------------------------------------------------------------------------------------------- the run's own map


class Map(NamedTuple):
    """One step of SGD: w <- w - lr m, m <- momentum m + g + decay w."""

    lr: float
    momentum: float
    decay: float


def map_of(trained: Trained, lr: float | None, with_momentum: bool) -> Map:
    """The run's optimizer as a map at the weights' step. Raises Skipped where it is not SGD's and no rate is given."""
    section = optimizer_of(trained)
    if lr is None:
        if section.get("type") != "sgd":
            name = section.get("type", "this")
            raise Skipped(f"the map of {name} is not that of gradient descent: give `lr` to measure that map anyway")
        lr = rate(trained)
        if not lr:
            raise Skipped("the learning rate at these weights is not known, or 0: give `lr`")
    is_sgd = section.get("type") == "sgd"
    momentum = float(section.get("momentum") or 0) if is_sgd and with_momentum else 0.0
    return Map(lr, momentum, float(section.get("weight_decay") or 0) if is_sgd else 0.0)


def minibatches(trained: Trained, size: int | None, seed: int, name: str) -> Iterator[Batch]:
    """Training batches without end, every pass in a new random order; `size` None takes the recipe's."""
    from raycipe.framework.training.feed import read_ids

    split = trained.splits.get("train")
    if split is None or isinstance(split, StreamSplit):
        raise Skipped("it needs a `train` split whose single examples can be drawn")
    wanted = size or int((trained.recipe.get("train") or {}).get("batch_size") or 64)
    wanted, stream = min(wanted, len(split)), torch_generator(seed, name)
    while True:
        order = torch.randperm(len(split), generator=stream)
        for start in range(0, len(split) - wanted + 1, wanted):
            yield read_ids(split, order[start : start + wanted].sort().values, trained.device)


class Descent:
    """Goes on training on a copy of the weights; yields the derivative of each step as it takes it.

    A tangent (k, n), with momentum (k, 2 n): the parts of w and m.
    """

    def __init__(
        self, trained: Trained, rule: Map, size: int | None, seed: int, precision: Precision = "float64"
    ) -> None:
        self.rule = rule
        self.batches = minibatches(trained, size, seed, "descent")
        first = next(self.batches)
        self.operator: Curvature = operator(trained, [first], precision=precision)
        self.batch: Batch | None = first
        self.point = self.operator.point.clone()
        self.memory = torch.zeros_like(self.point)

    @property
    def size(self) -> int:
        return self.operator.size * (2 if self.rule.momentum else 1)

    def __iter__(self) -> Iterator[Derivative]:
        while True:
            yield self.step()

    def step(self) -> Derivative:
        """Move, and give the derivative of the move: to be used before the next one."""
        here = self.operator.over([self.batch or next(self.batches)])
        self.batch = None
        before = self.point.clone()
        here.move_to(before)
        lr, momentum, decay = self.rule
        self.memory = momentum * self.memory + here.gradient() + decay * before
        self.point = before - lr * self.memory
        if not bool(torch.isfinite(self.point).all()):
            raise Skipped("training on from these weights diverges")

        def derivative(rows: Tensor) -> Tensor:
            here.move_to(before)
            w, *m = torch.split(rows, here.size, dim=1)
            memory = here.product(w) + decay * w + (momentum * m[0] if m else 0.0)
            return torch.cat([w - lr * memory, memory], dim=1) if m else w - lr * memory

        return derivative
