"""Noise on the gradients of two players."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from raycipe.components.data._noise import standard_noise
from raycipe.components.data._splits import regression_facts
from raycipe.framework.arguments import Count, NonNegative, Width
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class PlayerNoise(Data):
    """Noise for games: x disturbs the gradient of w, y that of v; an example is one draw of both.

    x and y are (dim,), independent, with mean 0 and standard deviation scale / sqrt(dim) an entry.

    Args:
        examples: how many are drawn
        dim: number of entries of each player
        scale: root of the expected square norm of each; 0 makes the game deterministic
        tail: gauss, or student3: heavy tails without a fourth moment

    Recipe:
        data: {type: player_noise, examples: 100, dim: 3, scale: 0.5}
        model: {type: point, start: 1.0}
        task: bilinear
        optimizer: {type: extragradient, lr: 0.1}
    """

    def __init__(
        self,
        examples: Count = 100,
        dim: Width = 20,
        scale: NonNegative = 1.0,
        tail: Literal["gauss", "student3"] = "gauss",
    ) -> None:
        self.examples = examples
        self.dim = dim
        self.scale = scale
        self.tail = tail

    def load(self, seed: int) -> dict[str, Split]:
        generator = numpy_generator(seed, "player_noise")
        deviation = self.scale / np.sqrt(self.dim)
        x, y = (deviation * standard_noise(generator, self.tail, (self.examples, self.dim)) for _ in range(2))
        self.facts = regression_facts([self.dim], self.dim)
        return {"train": TensorSplit({"x": torch.from_numpy(x).float(), "y": torch.from_numpy(y).float()})}
