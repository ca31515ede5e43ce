"""Which examples make up a step is a function of seed and position; how they are read changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from raycipe.framework.contracts import MapSplit, Split, StreamSplit, TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.training import stream
from raycipe.framework.training.feed import Feed, check_batch, in_order, order_of
from raycipe.framework.training.order import Order, share
from raycipe.framework.training.state import capture_rng

CPU = torch.device("cpu")


class Plain:
    """A map-style dataset that tells what it was asked for."""

    def __getitem__(self, key: tuple[int, int]) -> dict[str, Any]:
        epoch, number = key
        if number == 99:
            raise ValueError("a broken file")
        return {"x": torch.tensor([float(number)]), "epoch": epoch}


def memory(count: int) -> TensorSplit:
    return TensorSplit({"x": torch.arange(float(count)).unsqueeze(1)})


def feed(split: Split, position: tuple[int, int] = (0, 0), rank: int = 0, world_size: int = 1, **given: Any) -> Feed:
    order = order_of(split, given.pop("batch_size", 8), 3, given.pop("shuffle", True), given.pop("drop_last", True))
    order.epoch, order.offset = position
    return Feed(split, order, rank, world_size, given.pop("accumulate", 1), CPU, **given)


def ids(feed: Feed, steps: int) -> list[list[int]]:
    found = []
    for _ in range(steps):
        step = feed.next()
        batches = [batch["id"].tolist() for batch, count in zip(step.batches, step.counts, strict=True) if count]
        assert sum(batches, []) == step.ids.tolist()
        for batch in step.batches:
            assert batch["x"][:, 0].tolist() == batch["id"].tolist()
        found.append(step.ids.tolist())
    feed.close()
    return found


def test_an_epoch_has_every_example_once_and_another_order_each_time() -> None:
    found = ids(feed(memory(30), drop_last=False), 8)
    first, second = sum(found[:4], []), sum(found[4:], [])
    assert [len(batch) for batch in found] == [8, 8, 8, 6] * 2
    assert sorted(first) == sorted(second) == list(range(30))
    assert first != second
    assert ids(feed(memory(30), shuffle=False), 1) == [list(range(8))]


def test_the_short_last_batch_is_left_out_by_default() -> None:
    assert Order(30, 8, 0).steps_per_epoch == 3
    assert Order(30, 8, 0, drop_last=False).steps_per_epoch == 4
    assert [len(batch) for batch in ids(feed(memory(30)), 7)] == [8] * 7


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_together_see_the_same_global_batches(world_size: int) -> None:
    alone = ids(feed(memory(30)), 7)
    parts = [ids(feed(memory(30), rank=rank, world_size=world_size, accumulate=2), 7) for rank in range(world_size)]
    assert [sum(step, []) for step in zip(*parts, strict=True)] == alone


def test_another_batch_size_goes_on_at_the_same_example() -> None:
    first = feed(memory(32))
    done = ids(first, 2)
    other = feed(memory(32), (first.order.epoch, first.order.offset), batch_size=4)
    assert sorted(sum(done + ids(other, 4), [])) == list(range(32))


@pytest.mark.parametrize("workers", [0, 2])
def test_any_number_of_loader_processes_gives_the_same_batches_from_any_position(workers: int) -> None:
    split = MapSplit(Plain(), 60)
    wanted = ids(feed(split, drop_last=False), 12)
    assert wanted == ids(feed(memory(60), drop_last=False), 12)
    assert ids(feed(split, (0, 24), drop_last=False, workers=workers), 9) == wanted[3:]


def test_an_example_that_cannot_be_loaded_is_named_with_its_batch() -> None:
    with pytest.raises(ValueError, match="a broken file") as caught:
        ids(feed(MapSplit(Plain(), 100), shuffle=False, drop_last=False), 13)
    assert caught.value.__notes__ == ["while loading examples 96, 97, 98, 99 of epoch 0"]


@pytest.mark.parametrize("split", [memory(30), MapSplit(Plain(), 30)])
def test_no_feed_draws_from_the_global_generators(split: Split) -> None:
    before = capture_rng()
    ids(feed(split), 5)
    after = capture_rng()
    assert torch.equal(before["torch"], after["torch"])
    assert torch.equal(before["numpy"][1], after["numpy"][1]) and before["python"] == after["python"]


def test_a_rank_without_examples_is_padded_where_every_rank_must_compute() -> None:
    first = feed(memory(9), (0, 8), rank=1, world_size=2, drop_last=False, pad=True, accumulate=2)
    step = first.next()
    assert (step.size, step.own, step.counts) == (1, 0, [0, 0])
    assert [len(batch["id"]) for batch in step.batches] == [1, 1]


def test_a_resumed_order_must_be_the_same() -> None:
    state = Order(30, 8, 0).state()
    with pytest.raises(RunError, match="the order of the training examples has changed"):
        Order(30, 8, 1).restore(state)
    with pytest.raises(RunError, match=r"30 examples when the run was interrupted, 29 now"):
        Order(29, 8, 0).restore(state)


@pytest.mark.parametrize(
    ("count", "batch_size", "world_size", "accumulate", "words"),
    [
        (0, 8, 1, 1, "the `train` split is empty"),
        (7, 8, 1, 1, "a batch of 8 examples is asked for, but the `train` split has only 7"),
        (30, 5, 3, 2, "5 can't be divided among 3 workers x 2 micro-batches"),
        (30, 3, 1, 4, "3 can't be divided among 1 worker x 4 micro-batches"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(
    count: int, batch_size: int, world_size: int, accumulate: int, words: str
) -> None:
    with pytest.raises(RunError, match=words):
        check_batch(memory(count), batch_size, world_size, accumulate)


# ------------------------------------------------------------------------------------------------ files


def decode(columns: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Tensor]:
    return {"x": torch.from_numpy(columns["x"].astype(np.float32)).unsqueeze(1)}


def files(folder: Path, sizes: list[int], form: str = "parquet") -> StreamSplit:
    import pyarrow as arrow
    from pyarrow import csv, parquet

    paths, start = [], 0
    for number, size in enumerate(sizes):
        table = arrow.table({"unused": np.zeros(size), "x": np.arange(start, start + size)})
        paths.append(str(folder / f"{number}.{form}"))
        (parquet.write_table if form == "parquet" else csv.write_csv)(table, paths[-1])
        start += size
    return StreamSplit(paths, sizes, form, ["x"], decode)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_files_are_read_once_an_epoch_in_an_order_that_no_position_changes(
    tmp_path: Path, form: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(stream, "BLOCK_ROWS", 16)
    split = files(tmp_path, [7, 40, 21, 30], form)
    wanted = ids(feed(split, drop_last=False), 26)
    assert sorted(sum(wanted[:13], [])) == sorted(sum(wanted[13:], [])) == list(range(98))
    assert wanted[:13] != wanted[13:]
    for start in (1, 5, 12):
        assert ids(feed(split, (0, 8 * start), drop_last=False), 6) == wanted[start : start + 6]
    parts = [ids(feed(split, rank=rank, world_size=3, drop_last=False), 13) for rank in range(3)]
    assert [sum(step, []) for step in zip(*parts, strict=True)] == wanted[:13]
    assert ids(feed(split, shuffle=False), 2) == [list(range(8)), list(range(8, 16))]


def test_splits_are_read_in_id_order_by_turns(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(stream, "BLOCK_ROWS", 16)
    for split in (files(tmp_path, [7, 40, 3]), memory(50), MapSplit(Plain(), 50)):
        batches = list(in_order(split, 12, CPU))
        assert [batch["id"].tolist() for batch in batches] == [
            list(range(k, min(k + 12, 50))) for k in range(0, 50, 12)
        ]
        assert all(batch["x"][:, 0].tolist() == batch["id"].tolist() for batch in batches)
        turns = [[batch["id"][0].item() for batch in in_order(split, 12, CPU, rank, 3)] for rank in range(3)]
        assert turns == [[0, 36], [12, 48], [24]]


def test_a_file_that_changed_or_vanished_is_told(tmp_path: Path) -> None:
    split = files(tmp_path, [7, 40])
    wrong = StreamSplit(split.files, [7, 41], "parquet", ["x"], decode)
    with pytest.raises(RunError, match=r"1\.parquet: has 40 rows now, not 41: it changed"):
        ids(feed(wrong, shuffle=False, batch_size=6), 8)
    Path(split.files[1]).unlink()
    with pytest.raises(RunError, match=r"1\.parquet"):
        ids(feed(split, shuffle=False, batch_size=6), 7)


def test_the_stream_order_numbers_rows_as_the_split_lists_its_files(tmp_path: Path) -> None:
    order = order_of(files(tmp_path, [7, 40, 21]), 8, 1, True, True)
    assert isinstance(order, stream.StreamOrder)
    positions = np.arange(68)
    assert (order.positions(2, order.ids(2, positions)) == positions).all()
    assert sorted(order.ids(2, positions)) == list(range(68))
    assert share(torch.arange(5), 1, 2).tolist() == [3, 4]
