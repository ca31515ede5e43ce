"""A small network with everything that makes exact resume hard: dropout, BatchNorm, tied weights."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor, nn

from raycipe.framework.arguments import FromData
from raycipe.framework.contracts import Model
from raycipe.framework.registry import register


@register
class Net(Model):
    """Two tied hidden layers.

    Args:
        inputs: features of an example
        outputs: classes
        width: of the hidden layers
        dropout: share of units left out
        norm: use BatchNorm
    """

    def __init__(
        self,
        inputs: Annotated[int, FromData("num_features")],
        outputs: Annotated[int, FromData("num_outputs")],
        width: int = 16,
        dropout: float = 0.2,
        norm: bool = True,
    ) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.norm = nn.BatchNorm1d(width) if norm else nn.Identity()
        self.hidden, self.again = nn.Linear(width, width), nn.Linear(width, width)
        self.again.weight = self.hidden.weight
        self.drop = nn.Dropout(dropout)
        self.last = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(self.norm(self.first(x)).relu())
        return self.last(self.again(self.hidden(x).relu()).relu())
