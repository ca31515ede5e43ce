"""Some examples, drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import torch
from torch import Tensor

from raycipe.components.forget._examples import chosen
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Forget, Split
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator


@register
class Random(Forget):
    """A share of the training examples, drawn without replacement: the hard case, since nothing tells them apart.

    F is a uniform draw of max(1, round(fraction · n)) of the n training examples.

    Args:
        fraction: share of the training examples
        seed: of the draw; null takes the recipe's seed, a number keeps the request while the seed varies

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: fine_tune, steps: 20, forget: {type: random, fraction: 0.1}}
    """

    def __init__(
        self,
        fraction: Annotated[float, Range(gt=0, lt=1)] = 0.1,
        seed: Annotated[int, Range(ge=0, le=2**32 - 1)] | None = None,
    ) -> None:
        self.fraction = fraction
        self.seed = seed

    def select(self, splits: Mapping[str, Split], seed: int) -> Tensor:
        there = len(splits["train"])
        generator = torch_generator(seed if self.seed is None else self.seed, "forget")
        count = max(1, round(self.fraction * there))
        drawn = torch.randperm(there, generator=generator)[:count].sort().values
        return chosen(splits, drawn, "drawn")
