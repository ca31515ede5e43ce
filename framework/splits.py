"""The forms in which data holds its examples: tensors in memory, a map-style dataset, or files to stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

Batch = dict[str, Tensor]


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
