"""A multilayer perceptron."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from torch import Tensor, nn

from raycipe.framework.arguments import Count, Fraction, FromData, Length, Width
from raycipe.framework.contracts import Model
from raycipe.framework.registry import register


class Quadratic(nn.Module):
    """x²."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "quadratic": Quadratic,
}


@register
class Mlp(Model):
    """A multilayer perceptron on the flattened input.

    h_0 = x, h_l = drop(act(norm(W_l h_{l-1} + b_l))), f(x) = W h_L + b.
    ReLU layers start with He's variance 2 / fan_in, the others with 1 / fan_in; biases start at 0.

    Args:
        num_features: length of a flattened example; the data knows it
        num_outputs: number of classes or target dimensions; the data knows it
        hidden: width of each hidden layer, first to last; an empty list gives a linear model
        activation: nonlinearity after each hidden layer; quadratic is x²
        norm: normalization before each nonlinearity; `batch` keeps running statistics for evaluation
        dropout: share of hidden units that is zeroed at random in training
        bias: whether the layers have one

    Reference:
        K. He, X. Zhang, S. Ren, J. Sun, Delving Deep into Rectifiers, ICCV 2015 (initial variance).

    Recipe:
        data: digits
        model: {type: mlp, hidden: [128, 64], activation: gelu, dropout: 0.1}
        task: classification
        optimizer: {type: adamw, lr: 1e-3}
    """

    def __init__(
        self,
        num_features: Annotated[Count, FromData("num_features")],
        num_outputs: Annotated[Count, FromData("num_outputs")],
        hidden: Annotated[list[Width], Length(0, 64)] = [128, 128],  # noqa: B006 (never changed)
        activation: Literal["relu", "gelu", "tanh", "silu", "quadratic"] = "relu",
        norm: Literal["none", "batch", "layer"] = "none",
        dropout: Fraction = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.num_outputs = num_outputs
        gain = 2.0 if activation == "relu" else 1.0
        layers: list[nn.Module] = [nn.Flatten(1)]
        widths = [num_features, *hidden]
        for inputs, outputs in pairwise(widths):
            layers.append(_scaled_linear(inputs, outputs, gain, bias))
            if norm != "none":
                layers.append(nn.BatchNorm1d(outputs) if norm == "batch" else nn.LayerNorm(outputs))
            layers.append(ACTIVATIONS[activation]())
            if dropout:
                layers.append(nn.Dropout(dropout))
        layers.append(_scaled_linear(widths[-1], num_outputs, 1.0, bias))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:  # (batch, ...) -> (batch, num_outputs)
        return self.layers(x)


def _scaled_linear(inputs: int, outputs: int, gain: float, bias: bool) -> nn.Linear:
    """A linear layer with weights ~ N(0, gain / inputs) and zero biases."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=(gain / inputs) ** 0.5)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
