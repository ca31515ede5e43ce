"""One linear layer."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor, nn

from raycipe.framework.arguments import Count, FromData
from raycipe.framework.contracts import Model
from raycipe.framework.registry import register


@register
class Linear(Model):
    """One linear layer on the flattened input: linear or multinomial logistic regression.

    f(x) = W x + b, with W (num_outputs, num_features).

    Args:
        num_features: length of a flattened example; the data knows it
        num_outputs: number of classes or target dimensions; the data knows it
        bias: whether b is learned; without it f(0) = 0
        zero_init: start at W = 0, b = 0, which makes a convex problem's path independent of the seed

    Recipe:
        data: digits
        model: {type: linear, zero_init: true}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
    """

    def __init__(
        self,
        num_features: Annotated[Count, FromData("num_features")],
        num_outputs: Annotated[Count, FromData("num_outputs")],
        bias: bool = True,
        zero_init: bool = False,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.num_outputs = num_outputs
        self.layer = nn.Linear(num_features, num_outputs, bias=bias)
        if zero_init:
            for parameter in self.layer.parameters():
                nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:  # (batch, ...) -> (batch, num_outputs)
        return self.layer(x.flatten(1))
