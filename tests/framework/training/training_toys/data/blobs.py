"""Two-dimensional clusters, read from memory or example by example with random shifts."""

from __future__ import annotations

from typing import Any, Literal

import torch

from raycipe.framework.contracts import Data, MapSplit, Split, TensorSplit
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator


class Shifted:
    """Examples with noise keyed by epoch and id."""

    def __init__(self, split: TensorSplit, seed: int) -> None:
        self.split, self.seed = split, seed

    def __getitem__(self, key: tuple[int, int]) -> dict[str, Any]:
        epoch, number = key
        noise = 0.1 * torch.randn(8, generator=torch_generator(self.seed, "augment", epoch, number))
        return {"x": self.split.tensors["x"][number] + noise, "y": self.split.tensors["y"][number]}


@register
class Blobs(Data):
    """Clusters in eight dimensions.

    Args:
        train: training examples
        val: validation examples
        source: how training examples are read
    """

    def __init__(
        self,
        train: int = 300,
        val: int = 103,
        source: Literal["memory", "map"] = "memory",
    ) -> None:
        self.train, self.val, self.source = train, val, source

    def load(self, seed: int) -> dict[str, Split]:
        self.facts = {"input_shape": [8], "num_features": 8, "num_outputs": 3, "num_classes": 3}
        generator = torch_generator(seed, "data")
        centres = 1.5 * torch.randn(3, 8, generator=generator)

        def split(count: int) -> TensorSplit:
            y = torch.randint(3, (count,), generator=generator)
            return TensorSplit({"x": centres[y] + torch.randn(count, 8, generator=generator), "y": y})

        train, val, test = split(self.train), split(self.val), split(self.val)
        read: Split = MapSplit(Shifted(train, seed), len(train)) if self.source == "map" else train
        return {"train": read, "val": val, "test": test}
