"""From a position in the order of examples to batches on the device.

Three sources, one per kind of split. None of them draws from torch's global generator, whose state belongs to the
model (dropout): otherwise a run resumed in the middle of an epoch would differ from an unbroken one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from raycipe.framework.contracts import Batch, MapSplit, Split, StreamSplit, TensorSplit
from raycipe.framework.errors import RunError, counted
from raycipe.framework.training.order import Order, micro_batches, remaining, share
from raycipe.framework.training.stream import StreamOrder, StreamReader, stream_in_order


@dataclass
class Step:
    """What one rank computes in one optimizer step."""

    epoch: int
    size: int  # examples of the global batch
    own: int  # of them this rank's
    ids: Tensor  # this rank's, all micro-batches together
    batches: list[Batch]
    counts: list[int]  # examples of each batch that count; 0 for padding


class Feed:
    """The training batches of one rank, from the position of `order` on.

    `pad` gives a rank without examples (a short last batch) the batch's first example: exchanges that are collective
    in every backward pass need one, and weigh it with zero (`padded`).
    """

    def __init__(
        self,
        split: Split,
        order: Order,
        rank: int,
        world_size: int,
        accumulate: int,
        device: torch.device,
        workers: int = 0,
        pad: bool = False,
    ) -> None:
        self.order, self.rank, self.world_size, self.accumulate, self.pad = order, rank, world_size, accumulate, pad
        self.device = device
        self._source = _source(split, self, workers)

    def parts(self, ids: Tensor) -> list[Tensor]:
        """The ids of this rank's micro-batches out of a global batch, padding included."""
        parts = micro_batches(share(ids, self.rank, self.world_size), self.accumulate)
        return parts + [ids[:1]] * (self.accumulate - len(parts)) if self.pad else parts

    def next(self) -> Step:
        epoch, ids = self.order.next()
        mine = share(ids, self.rank, self.world_size)
        parts = self.parts(ids)
        own = mine.shape[0]
        counts = [part.shape[0] for part in parts]
        if self.pad and own < self.accumulate:
            counts[own:] = [0] * (self.accumulate - own)
        return Step(epoch, ids.shape[0], own, mine, self._source(epoch, parts), counts)

    def replicate(self) -> None:
        """Give this rank the whole batches, as every other one."""
        self.rank, self.world_size = 0, 1

    def close(self) -> None:
        """End the reading processes, if there are any; the collector would find them late and wait for them."""
        if isinstance(self._source, MapStyle):
            self._source.close()


Source = Callable[[int, list[Tensor]], list[Batch]]


def _source(split: Split, feed: Feed, workers: int) -> Source:
    if isinstance(split, TensorSplit):
        return InMemory(split, feed.device)
    if isinstance(split, MapSplit):
        return MapStyle(split, feed, workers)
    if isinstance(split, StreamSplit):
        assert isinstance(feed.order, StreamOrder)  # made by `order_of`
        return StreamReader(split, feed.order, feed.device)
    raise TypeError(f"the loop can't read a {type(split).__name__}")


def order_of(split: Split, batch_size: int, seed: int, shuffle: bool, drop_last: bool) -> Order:
    """The order in which a split of this kind is read for training."""
    if isinstance(split, StreamSplit):
        return StreamOrder(split, batch_size, seed, shuffle, drop_last)
    return Order(len(split), batch_size, seed, shuffle, drop_last)


class InMemory:
    """Tensors that lie on the device as a whole: a batch is an index."""

    def __init__(self, split: TensorSplit, device: torch.device) -> None:
        self.tensors = {name: tensor.to(device) for name, tensor in split.tensors.items()}
        self.device = device

    def __call__(self, epoch: int, parts: list[Tensor]) -> list[Batch]:
        batches = []
        for ids in parts:
            there = ids.to(self.device)
            batch = {name: tensor.index_select(0, there) for name, tensor in self.tensors.items()}
            batch["id"] = there
            batches.append(batch)
        return batches


class MapStyle:
    """One DataLoader for the whole run, whose sampler is the list of all batches to come: its processes start once.

    The dataset is asked for `(epoch, id)`.
    """

    def __init__(self, split: MapSplit, feed: Feed, workers: int) -> None:
        self.split, self.feed, self.workers = split, feed, workers
        self._batches: Iterator[Batch] | None = None

    def _start(self, first: tuple[int, list[Tensor]]) -> Iterator[Batch]:
        cuda = self.feed.device.type == "cuda"
        loader: DataLoader[Any] = DataLoader(
            _Keyed(self.split.dataset),
            batch_sampler=_Keys(self.feed, first),
            num_workers=self.workers,
            generator=torch.Generator(),
            collate_fn=_collate,
            persistent_workers=self.workers > 0,
            pin_memory=cuda,
            multiprocessing_context="forkserver" if self.workers and cuda else None,  # CUDA does not survive a fork
            worker_init_fn=_one_thread,
        )
        return iter(loader)

    def __call__(self, epoch: int, parts: list[Tensor]) -> list[Batch]:
        if self._batches is None:
            self._batches = self._start((epoch, parts))  # the feed's position already stands behind these
        with _naming(torch.cat(parts), epoch):
            return [_to(next(self._batches), self.feed.device) for _ in parts]

    def close(self) -> None:
        self._batches = None  # its end stops the loader's processes


@contextmanager
def _naming(ids: Tensor, epoch: int) -> Iterator[None]:
    """Adds to any failure of a user's dataset, or of a process that reads it, which examples were asked for."""
    try:
        yield
    except Exception as error:
        shown = ", ".join(map(str, ids[:8].tolist())) + (", ..." if len(ids) > 8 else "")
        error.add_note(f"while loading examples {shown} of epoch {epoch}")
        raise


class _Keys:
    """The sampler: the batch asked for first, then all that follow the feed's position."""

    def __init__(self, feed: Feed, first: tuple[int, list[Tensor]]) -> None:
        self.feed, self.first = feed, first
        self.rest = remaining(feed.order.at(feed.order.epoch, feed.order.offset))  # the feed moves on meanwhile

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch, parts = self.first
        yield from ([(epoch, number) for number in part.tolist()] for part in parts)
        for epoch, ids in self.rest:
            yield from ([(epoch, number) for number in part.tolist()] for part in self.feed.parts(ids))


class _Keyed(Dataset[Any]):
    """Adds the example's id to what the dataset gives."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, key: tuple[int, int]) -> dict[str, Any]:
        return {**self.dataset[key], "id": key[1]}


def _collate(examples: list[dict[str, Any]]) -> Batch:
    batch: Batch = default_collate(examples)
    return batch


def _one_thread(worker: int) -> None:
    torch.set_num_threads(1)


def _to(batch: Batch, device: torch.device) -> Batch:
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


def read_ids(split: Split, ids: Tensor, device: torch.device, epoch: int = 0) -> Batch:
    """One batch of given examples of a split in memory or read example by example."""
    if isinstance(split, TensorSplit):
        return {**{name: tensor[ids].to(device) for name, tensor in split.tensors.items()}, "id": ids.to(device)}
    if isinstance(split, MapSplit):
        keyed = _Keyed(split.dataset)
        with _naming(ids, epoch):
            return _to(_collate([keyed[epoch, number] for number in ids.tolist()]), device)
    raise TypeError(f"a {type(split).__name__} is read in order only")


def in_order(
    split: Split, batch_size: int, device: torch.device, rank: int = 0, world_size: int = 1
) -> Iterator[Batch]:
    """The batches of a split in id order; the last one is short. Of several ranks each takes every W-th batch."""
    if isinstance(split, StreamSplit):
        yield from stream_in_order(split, batch_size, device, rank, world_size)
        return
    for start in range(rank * batch_size, len(split), batch_size * world_size):
        yield read_ids(split, torch.arange(start, min(start + batch_size, len(split))), device)


def check_batch(split: Split, batch_size: int, world_size: int, accumulate: int) -> None:
    """Raise RunError if the split or the batch can't be divided as asked."""
    if len(split) == 0:
        raise RunError("data", "the `train` split is empty", "see `raycipe show` for the data's arguments", "data")
    if batch_size > len(split):
        raise RunError(
            "data",
            f"a batch of {counted(batch_size, 'example')} is asked for, but the `train` split has only {len(split)}",
            f"set train.batch_size to at most {len(split)}",
            "train.batch_size",
        )
    if batch_size < world_size * accumulate:
        raise RunError(
            "data",
            f"counts the examples of all workers together: {batch_size} can't be divided among "
            f"{counted(world_size, 'worker')} x {counted(accumulate, 'micro-batch', 'micro-batches')}",
            f"set train.batch_size to at least {world_size * accumulate}, or use fewer workers",
            "train.batch_size",
        )
