"""Other data, with some labels made wrong."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator


@register
class NoisyLabels(Data):
    """Other data, with a share of the training labels exchanged for a wrong class, drawn uniformly.

    The training split also has `clean_y`, the classes before; `val` and `test` stay as they are.

    Args:
        data: the data whose labels are changed
        fraction: share of the training examples that get a wrong label
        seed: draws them; null takes the recipe's seed, a number keeps the noise while the seed varies

    Recipe:
        data: {type: noisy_labels, data: digits, fraction: 0.2}
        model: {type: mlp, hidden: [64]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
    """

    def __init__(
        self,
        data: Data,
        fraction: Annotated[float, Range(gt=0, lt=1)] = 0.1,
        seed: Annotated[int, Range(ge=0, le=2**32 - 1)] | None = None,
    ) -> None:
        self.data = data
        self.fraction = fraction
        self.seed = seed

    def load(self, seed: int) -> dict[str, Split]:
        splits = self.data.load(seed)
        self.facts = dict(self.data.facts)
        train, classes = splits["train"], self.facts.get("num_classes")
        if classes is None or not isinstance(train, TensorSplit):
            hint = "take data with classes that fit in memory: digits, csv, ..."
            raise RunError("data", f"data/{self.data.type_name} has no labels in memory to exchange", hint, "data.data")
        clean = train.tensors["y"]
        noisy = exchange(clean, classes, self.fraction, torch_generator(_seed(self.seed, seed), "label noise"))
        return {**splits, "train": TensorSplit({**train.tensors, "y": noisy, "clean_y": clean})}


def _seed(own: int | None, recipe: int) -> int:
    return recipe if own is None else own


def exchange(labels: Tensor, classes: int, fraction: float, generator: torch.Generator) -> Tensor:
    """The labels (n,) with max(1, round(fraction · n)) of them changed to another class, uniformly."""
    count = max(1, round(fraction * len(labels)))
    which = torch.randperm(len(labels), generator=generator)[:count]
    shift = torch.randint(1, classes, (count,), generator=generator)
    noisy = labels.clone()
    noisy[which] = (labels[which] + shift) % classes
    return noisy
