"""Workers whose examples differ in their labels: a step's batch holds, worker by worker, examples of their own."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from raycipe.framework.errors import RunError
from raycipe.framework.splits import Split, TensorSplit
from raycipe.framework.streams import numpy_generator, torch_generator
from raycipe.framework.training.order import Order

BALANCING = 500  # rounds that make workers equally large


class SkewedOrder(Order):
    """The order of examples where each of `workers` has a shard of its own, shuffled each epoch.

    Shards are equally large; the few examples that are too many for that are left out.
    """

    def __init__(
        self, labels: Tensor, workers: int, skew: float, batch_size: int, seed: int, shuffle: bool, drop_last: bool
    ) -> None:
        self.shards = shards(labels.numpy(), workers, skew, seed)
        super().__init__(self.shards.numel(), batch_size, seed, shuffle, drop_last)

    def permutation(self, epoch: int) -> Tensor:
        """All ids, so that the r-th part of each batch belongs to the r-th worker."""
        if self._cached is None or self._cached[0] != epoch:
            workers, length = self.shards.shape
            each = self.batch_size // workers
            rows = self.shards
            if self.shuffle:
                orders = [
                    torch.randperm(length, generator=torch_generator(self.seed, "order", epoch, rank))
                    for rank in range(workers)
                ]
                rows = torch.stack([shard[order] for shard, order in zip(rows, orders, strict=True)])
            whole = length // each * each
            batches = rows[:, :whole].view(workers, -1, each).transpose(0, 1)  # (batches, workers, each)
            self._cached = epoch, torch.cat([batches.reshape(-1), rows[:, whole:].reshape(-1)])
        return self._cached[1]

    def at(self, epoch: int, offset: int) -> Order:
        other = object.__new__(SkewedOrder)
        other.__dict__.update(self.__dict__, epoch=epoch, offset=offset)
        return other


def shards(labels: np.ndarray, workers: int, skew: float, seed: int) -> Tensor:
    """(workers, examples of each): sorted by label for `skew` 0, else shares of the labels from Dirichlet(skew).

    The drawn shares are scaled till every worker has as many examples, and every label as many as there are.
    """
    generator = numpy_generator(seed, "skew")
    mixed = generator.permutation(len(labels))
    each = len(labels) // workers
    if skew == 0:
        ordered = mixed[np.argsort(labels[mixed], kind="stable")]
        return torch.from_numpy(ordered[: workers * each].reshape(workers, each))
    classes, sizes = np.unique(labels, return_counts=True)
    wanted = _balanced(generator.dirichlet(np.full(len(classes), skew), size=workers), each, sizes)
    stops = wanted.cumsum(0)
    taken: list[list[np.ndarray]] = [[] for _ in range(workers)]
    left = []
    for column, label in enumerate(classes):
        *parts, rest = np.split(mixed[labels[mixed] == label], stops[:, column])
        for own, part in zip(taken, parts, strict=True):
            own.append(part)
        left.append(rest)
    spare, found = generator.permutation(np.concatenate(left)), []
    for own in taken:
        missing = each - sum(map(len, own))
        found.append(np.concatenate([*own, spare[:missing]]))
        spare = spare[missing:]
    return torch.from_numpy(np.stack(found))


def _balanced(shares: np.ndarray, each: int, sizes: np.ndarray) -> np.ndarray:
    """Whole numbers, rounded down, with row sums `each` and column sums below `sizes` (Sinkhorn's scaling)."""
    counts = shares + 1e-12
    for _ in range(BALANCING):
        counts *= (sizes / counts.sum(0))[None, :]
        counts *= (each / counts.sum(1))[:, None]
    found: np.ndarray = np.floor(counts * min(1.0, float((sizes / counts.sum(0)).min())) + 1e-9).astype(int)
    return found


def skewed_order(
    split: Split, workers: int, skew: float, batch_size: int, seed: int, shuffle: bool, drop_last: bool
) -> Order:
    """Raises RunError for data without labels."""
    labels = split.tensors.get("y") if isinstance(split, TensorSplit) else None
    if labels is None or labels.dim() != 1 or labels.is_floating_point():
        raise RunError(
            "data",
            "workers can't be given labels of their own: the training split has no class labels in memory",
            "leave out train.label_skew, or take classification data that fit in memory",
            where="train.label_skew",
        )
    return SkewedOrder(labels, workers, skew, batch_size, seed, shuffle, drop_last)
