"""A point that is trained itself."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from raycipe.framework.arguments import Count, FromData
from raycipe.framework.contracts import Model
from raycipe.framework.registry import register


@register
class Point(Model):
    """A vector of parameters that does not look at the examples: the player of a game, the point of a test function.

    f(x) = w for every x.

    Args:
        dim: length of w; the data knows it
        start: start value of each entry of w; null draws them from N(0, 1)

    Recipe:
        data: {type: player_noise, dim: 4}
        model: {type: point, start: 1.0}
        task: bilinear
        optimizer: {type: extragradient, lr: 0.1}
    """

    def __init__(self, dim: Annotated[Count, FromData("num_features")], start: float | None = None) -> None:
        super().__init__()
        self.dim = dim
        self.w = nn.Parameter(torch.randn(dim) if start is None else torch.full((dim,), start))

    def forward(self, x: Tensor) -> Tensor:  # (batch, ...) -> (batch, dim)
        return self.w.expand(x.shape[0], -1)
