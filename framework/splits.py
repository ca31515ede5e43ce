"""The forms in which data holds its examples: tensors in memory, a map-style dataset, or files to stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raycipe.framework.errors import RunError

Batch = dict[str, Tensor]
WHOLE_BYTES = 256_000_000  # tensors of a split beyond this size are told apart by their shapes and ends
END_BYTES = 1_000_000
FILE_END_BYTES = 65536


class Split(ABC):
    """Examples with the stable ids 0 .. len - 1."""

    @abstractmethod
    def __len__(self) -> int: ...


class TensorSplit(Split):
    """A split that fits in memory: tensors of equal first dimension, one per batch key (`id` is added by the feed)."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        lengths = {name: len(tensor) for name, tensor in tensors.items()}
        if not lengths or len(set(lengths.values())) != 1:
            raise ValueError(f"tensors: need one common number of examples, not {lengths}")
        self.tensors = dict(tensors)

    def __len__(self) -> int:
        return len(next(iter(self.tensors.values())))


class MapSplit(Split):
    """A split read example by example: `dataset[epoch, id]` gives a dict of tensors without the example dimension.

    Randomness of an example (augmentation) must come from a generator keyed by (seed, "augment", epoch, id).
    """

    def __init__(self, dataset: Any, length: int) -> None:
        self.dataset = dataset
        self.length = length

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True)
class StreamSplit(Split):
    """A split larger than memory: files read in blocks of rows with pyarrow, ahead of the training step.

    `rows[i]` is the number of rows of `files[i]`; `decode` turns columns (numpy arrays of equal length) into a batch.
    """

    files: Sequence[str]
    rows: Sequence[int]
    format: str  # "parquet" or "csv"
    columns: Sequence[str]
    decode: Callable[[Mapping[str, np.ndarray]], Batch]

    def __len__(self) -> int:
        return sum(self.rows)


def subset(split: Split, ids: Tensor) -> Split:
    """The examples `ids` of a split, in that order and with new ids 0, 1, ... . Raises RunError for a stream."""
    if isinstance(split, TensorSplit):
        return TensorSplit({name: tensor[ids] for name, tensor in split.tensors.items()})
    if isinstance(split, MapSplit):
        return MapSplit(_Chosen(split.dataset, ids.tolist()), len(ids))
    hint = "take data that fit in memory, or that are read example by example"
    raise RunError("data", "single examples of files that are streamed can't be picked", hint, "data")


class _Chosen:
    """Some examples of a dataset that is asked for `(epoch, id)`."""

    def __init__(self, dataset: Any, ids: Sequence[int]) -> None:
        self.dataset, self.ids = dataset, ids

    def __getitem__(self, key: tuple[int, int]) -> Any:
        epoch, number = key
        return self.dataset[epoch, self.ids[number]]


def digests(split: Split) -> dict[str, str]:
    """What tells a split from a changed one: a sha256 for each of its tensors, or for each of its files.

    Large tensors and files are known by their sizes and ends. Of a `MapSplit` only the length can be known.
    """
    if isinstance(split, TensorSplit):
        size = sum(tensor.nbytes for tensor in split.tensors.values())
        return {name: _tensor_digest(tensor, size <= WHOLE_BYTES) for name, tensor in sorted(split.tensors.items())}
    if isinstance(split, StreamSplit):
        files = enumerate(zip(split.files, split.rows, strict=True), 1)
        return {f"file {number} ({Path(file).name})": _file_digest(Path(file), rows) for number, (file, rows) in files}
    return {"length": str(len(split))}


def fingerprint(splits: Mapping[str, Split]) -> str | None:
    """sha256 of all splits' `digests`; None where a split is read example by example: its content is not known."""
    if any(isinstance(split, MapSplit) for split in splits.values()):
        return None
    lines = [f"{name} {key} {value}" for name, split in sorted(splits.items()) for key, value in digests(split).items()]
    return sha256("\n".join(lines).encode()).hexdigest()


def _tensor_digest(tensor: Tensor, whole: bool) -> str:
    digest = sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    numbers = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    for part in [numbers] if whole else [numbers[:END_BYTES], numbers[-END_BYTES:]]:
        digest.update(part.data)
    return digest.hexdigest()


def _file_digest(file: Path, rows: int) -> str:
    size = file.stat().st_size
    digest = sha256(f"{size} {rows}".encode())
    with file.open("rb") as opened:
        digest.update(opened.read(FILE_END_BYTES))
        opened.seek(max(0, size - FILE_END_BYTES))
        digest.update(opened.read(FILE_END_BYTES))
    return digest.hexdigest()
