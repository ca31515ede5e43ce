"""The order of training examples as a pure function of the seed, and a position in it.

A global batch is the same for every number of workers: rank r takes the r-th part of it, micro-batches are parts of
that. The position is (epoch, examples of it that are done), so the batch size or the number of workers may change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor

from raycipe.framework.errors import RunError
from raycipe.framework.streams import torch_generator


class Order:
    """Which examples make up each optimizer step.

    Args:
        length: examples in the split.
        batch_size: examples per step over all workers.
        seed: of the run; the stream is (seed, "order", epoch).
        shuffle: a new permutation each epoch, else id order.
        drop_last: leave out an epoch's last, short batch.
    """

    def __init__(self, length: int, batch_size: int, seed: int, shuffle: bool = True, drop_last: bool = True) -> None:
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self.shuffle, self.drop_last = shuffle, drop_last
        self.epoch = 0
        self.offset = 0
        self._cached: tuple[int, Tensor] | None = None

    @property
    def steps_per_epoch(self) -> int:
        full, rest = divmod(self.length, self.batch_size)
        return full + (0 if self.drop_last or rest == 0 else 1)

    def permutation(self, epoch: int) -> Tensor:
        """All ids in the order of `epoch`, int64."""
        if self._cached is None or self._cached[0] != epoch:
            if self.shuffle:
                ids = torch.randperm(self.length, generator=torch_generator(self.seed, "order", epoch))
            else:
                ids = torch.arange(self.length)
            self._cached = (epoch, ids)
        return self._cached[1]

    def next(self) -> tuple[int, Tensor]:
        """(epoch, ids of the next global batch); moves the position behind it."""
        left = self.length - self.offset
        if left < (self.batch_size if self.drop_last else 1):
            self.epoch, self.offset = self.epoch + 1, 0
        stop = min(self.offset + self.batch_size, self.length)
        ids = self.permutation(self.epoch)[self.offset : stop]
        self.offset = stop
        return self.epoch, ids

    def at(self, epoch: int, offset: int) -> Order:
        """The same order at another position."""
        other = Order(self.length, self.batch_size, self.seed, self.shuffle, self.drop_last)
        other.epoch, other.offset, other._cached = epoch, offset, self._cached
        return other

    def digest(self, epoch: int) -> str:
        """A fingerprint of the epoch's order: a resumed run refuses to go on in another one."""
        return hashlib.sha256(self.permutation(epoch).numpy().tobytes()).hexdigest()

    def state(self) -> dict[str, int | str]:
        return {
            "epoch": self.epoch,
            "offset": self.offset,
            "length": self.length,
            "batch_size": self.batch_size,
            "digest": self.digest(self.epoch),
        }

    def restore(self, state: dict[str, int | str]) -> None:
        epoch = int(state["epoch"])
        if state["length"] != self.length or state["digest"] != self.digest(epoch):
            raise RunError(
                "data",
                f"can't resume: the order of the training examples has changed ({state['length']} examples when the "
                f"run was interrupted, {self.length} now)",
                "the data, the seed or torch's random generator differ from those of the interrupted run",
                where="data",
            )
        self.epoch, self.offset = epoch, int(state["offset"])


def share(ids: Tensor, rank: int, world_size: int) -> Tensor:
    """The part of a global batch that belongs to `rank`; parts differ by at most one example."""
    return ids.tensor_split(world_size)[rank] if world_size > 1 else ids


def micro_batches(ids: Tensor, accumulate: int) -> list[Tensor]:
    """The parts of a rank's share that go through the model one after the other; empty ones are left out."""
    parts = ids.tensor_split(accumulate) if accumulate > 1 else [ids]
    return [part for part in parts if part.shape[0]]  # (`len` of a tensor is ten times slower)


def remaining(order: Order) -> Iterator[tuple[int, Tensor]]:
    """The batches from the position of `order` on, without end; moves it."""
    while True:
        yield order.next()
