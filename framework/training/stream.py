"""Splits larger than memory, read from files in blocks of rows.

The order is exact and restorable although nothing holds all ids: the files are shuffled, then the rows within each
block of consecutive rows, both as functions of (seed, epoch). Every rank reads the files and decodes its own rows, so
that global batches don't depend on the number of workers or files.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raycipe.framework.contracts import Batch, StreamSplit
from raycipe.framework.errors import RunError
from raycipe.framework.streams import torch_generator
from raycipe.framework.training.order import Order

BLOCK_ROWS = 8192
MIN_CSV_BLOCK, MAX_CSV_BLOCK = 2**20, 2**25  # bytes; the types of columns are taken from the first block
Columns = dict[str, np.ndarray[Any, Any]]


class StreamOrder(Order):
    """`Order` over the rows of files; ids count rows in the order in which the split lists its files."""

    def __init__(
        self, split: StreamSplit, batch_size: int, seed: int, shuffle: bool = True, drop_last: bool = True
    ) -> None:
        super().__init__(len(split), batch_size, seed, shuffle, drop_last)
        self.split = split
        self.first_ids = np.concatenate([[0], np.cumsum(split.rows)])  # of each file
        self._files: tuple[int, np.ndarray[Any, Any], np.ndarray[Any, Any]] | None = None

    def at(self, epoch: int, offset: int) -> StreamOrder:
        other = StreamOrder(self.split, self.batch_size, self.seed, self.shuffle, self.drop_last)
        other.epoch, other.offset = epoch, offset
        return other

    def files(self, epoch: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(files in the order of `epoch`, position of each one's first row, and the end)."""
        if self._files is None or self._files[0] != epoch:
            count = len(self.split.files)
            if self.shuffle:
                order = torch.randperm(count, generator=torch_generator(self.seed, "order", epoch)).numpy()
            else:
                order = np.arange(count)
            starts = np.concatenate([[0], np.cumsum(np.asarray(self.split.rows)[order])])
            self._files = (epoch, order, starts)
        return self._files[1], self._files[2]

    def block(self, epoch: int, number: int) -> np.ndarray[Any, Any]:
        """The positions (in the files' order) of a block's rows, shuffled."""
        first = number * BLOCK_ROWS
        size = min(BLOCK_ROWS, self.length - first)
        if not self.shuffle:
            return np.arange(first, first + size)
        generator = torch_generator(self.seed, "order", epoch, number + 1)
        return first + torch.randperm(size, generator=generator).numpy()

    def permutation(self, epoch: int) -> Tensor:
        """A stand-in that tells orders apart without listing every row: the files' order and the first block."""
        return torch.from_numpy(np.concatenate([self.files(epoch)[0], self.block(epoch, 0)]))

    def next(self) -> tuple[int, Tensor]:
        left = self.length - self.offset
        if left < (self.batch_size if self.drop_last else 1):
            self.epoch, self.offset = self.epoch + 1, 0
        stop = min(self.offset + self.batch_size, self.length)
        blocks = range(self.offset // BLOCK_ROWS, (stop - 1) // BLOCK_ROWS + 1)
        rows = np.concatenate([self.block(self.epoch, number) for number in blocks])
        first = blocks.start * BLOCK_ROWS
        positions = rows[self.offset - first : stop - first]
        self.offset = stop
        return self.epoch, torch.from_numpy(self.ids(self.epoch, positions))

    def ids(self, epoch: int, positions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        order, starts = self.files(epoch)
        turn = np.searchsorted(starts, positions, side="right") - 1
        return np.asarray(self.first_ids[order[turn]] + positions - starts[turn], dtype=np.int64)

    def positions(self, epoch: int, ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The inverse of `ids`."""
        order, starts = self.files(epoch)
        file = np.searchsorted(self.first_ids, ids, side="right") - 1
        turn = np.argsort(order)[file]
        return np.asarray(starts[turn] + ids - self.first_ids[file])


class StreamReader:
    """The rows of training batches: blocks are read ahead by a thread, the last two are kept."""

    def __init__(self, split: StreamSplit, order: StreamOrder, device: torch.device) -> None:
        self.split, self.order, self.device = split, order, device
        self.epoch = -1
        self.kept: dict[int, Columns] = {}
        self.coming: Iterator[tuple[int, Columns]] = iter(())

    def __call__(self, epoch: int, parts: list[Tensor]) -> list[Batch]:
        return [self._batch(epoch, ids) for ids in parts]

    def _batch(self, epoch: int, ids: Tensor) -> Batch:
        positions = self.order.positions(epoch, ids.numpy())
        numbers = positions // BLOCK_ROWS
        pieces: list[tuple[np.ndarray[Any, Any], Columns]] = []
        for number in np.unique(numbers):
            where = np.flatnonzero(numbers == number)
            rows = positions[where] % BLOCK_ROWS
            block = self._block(epoch, int(number))
            pieces.append((where, {name: column[rows] for name, column in block.items()}))
        back = np.argsort(np.concatenate([where for where, _ in pieces]))
        columns = {name: np.concatenate([piece[name] for _, piece in pieces])[back] for name in pieces[0][1]}
        return _decoded(self.split, columns, ids, self.device)

    def _block(self, epoch: int, number: int) -> Columns:
        if epoch != self.epoch:
            self.kept.clear()
        if epoch != self.epoch or (number not in self.kept and number < min(self.kept, default=number)):
            self.epoch = epoch
            order = self.order.files(epoch)[0]
            self.coming = ahead(blocks(self.split, order, number))
        while number not in self.kept:
            there, block = next(self.coming)
            self.kept[there] = block
            self.kept.pop(there - 2, None)
        return self.kept[number]


def blocks(split: StreamSplit, order: np.ndarray[Any, Any], first: int = 0) -> Iterator[tuple[int, Columns]]:
    """(number, columns) of the blocks from `first` on, reading `split.files[i]` for i in `order`."""
    skip = first * BLOCK_ROWS
    number, held, rows = first, [], 0
    for file in order:
        if skip >= split.rows[file]:
            skip -= split.rows[file]
            continue
        for chunk in read_file(split, int(file), skip):
            held.append(chunk)
            rows += _rows(chunk)
            while rows >= BLOCK_ROWS:
                whole = {name: np.concatenate([part[name] for part in held]) for name in held[0]}
                yield number, {name: column[:BLOCK_ROWS] for name, column in whole.items()}
                held, rows = [{name: column[BLOCK_ROWS:] for name, column in whole.items()}], rows - BLOCK_ROWS
                number += 1
        skip = 0
    if rows:
        yield number, {name: np.concatenate([part[name] for part in held]) for name in held[0]}


def read_file(split: StreamSplit, file: int, skip: int) -> Iterator[Columns]:
    """The columns of one file in pieces, without its first `skip` rows. Raises RunError if it can't be read."""
    path = split.files[file]
    try:
        done = 0
        for table in _tables(split, path):
            done += table.num_rows
            if done > skip:
                piece = table.slice(max(0, skip - (done - table.num_rows)))
                yield {name: piece.column(name).to_numpy(zero_copy_only=False) for name in split.columns}
    except (OSError, ValueError, KeyError) as error:  # pyarrow's errors derive from these
        raise RunError("data", f"{path}: {error}", where="data") from error
    if done != split.rows[file]:
        raise RunError("data", f"{path}: has {done} rows now, not {split.rows[file]}: it changed", where="data")


def _tables(split: StreamSplit, path: str) -> Iterator[Any]:
    columns = list(split.columns)
    if split.format == "parquet":
        import pyarrow.parquet as parquet

        with parquet.ParquetFile(path) as opened:
            yield from opened.iter_batches(batch_size=BLOCK_ROWS, columns=columns)
    else:
        from pyarrow import csv

        read, parse = csv.ReadOptions(block_size=csv_block(path)), csv.ParseOptions(newlines_in_values=True)
        with csv.open_csv(path, read, parse, csv.ConvertOptions(include_columns=columns)) as opened:
            yield from opened


def csv_block(path: str) -> int:
    """Bytes to read at once, about a thousand rows: in a table of 100,000 columns a megabyte is only one row."""
    with open(path, "rb") as opened:
        header = len(opened.readline(2**27))
    return min(max(1000 * header, MIN_CSV_BLOCK), max(8 * header, MAX_CSV_BLOCK))  # a row must fit into a block


def _rows(columns: Mapping[str, np.ndarray[Any, Any]]) -> int:
    return len(next(iter(columns.values())))


def _decoded(split: StreamSplit, columns: Columns, ids: Tensor, device: torch.device) -> Batch:
    batch = {name: tensor.to(device) for name, tensor in split.decode(columns).items()}
    batch["id"] = ids.to(device)
    return batch


def stream_in_order(
    split: StreamSplit, batch_size: int, device: torch.device, rank: int = 0, world_size: int = 1
) -> Iterator[Batch]:
    """Every `world_size`-th batch in id order, from batch `rank` on."""
    held: Columns = {}
    start = 0  # id of the first row in `held`
    for _, block in ahead(blocks(split, np.arange(len(split.files)))):
        held = {name: np.concatenate([held[name], column]) if held else column for name, column in block.items()}
        end = start + _rows(held)
        while end - start >= batch_size or (end == len(split) and end > start):
            size = min(batch_size, end - start)
            if start // batch_size % world_size == rank:
                columns = {name: column[:size] for name, column in held.items()}
                yield _decoded(split, columns, torch.arange(start, start + size), device)
            held = {name: column[size:] for name, column in held.items()}
            start += size


def ahead(items: Iterator[Any], depth: int = 2) -> Iterator[Any]:
    """The same items, made by a thread up to `depth` in advance. The thread ends when the reader is dropped."""
    filled: queue.Queue[tuple[str, Any]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(kind: str, value: Any) -> None:
        while not stopped.is_set():
            try:
                filled.put((kind, value), timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put("item", item)
                if stopped.is_set():
                    return
            put("end", None)
        except Exception as error:  # noqa: BLE001 - raised again in the reader's thread
            put("error", error)

    threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            kind, value = filled.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        stopped.set()
