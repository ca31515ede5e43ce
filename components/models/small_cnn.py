"""A small convolutional network."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor, nn

from raycipe.framework.arguments import Count, Fraction, FromData, Length, Width
from raycipe.framework.contracts import Model
from raycipe.framework.registry import register


@register
class SmallCnn(Model):
    """A small convolutional network for signals (channels, length) and images (channels, height, width).

    Per entry of `channels`: convolution (kernel k, padding k // 2) -> batch norm -> ReLU -> 2-fold max pooling while
    every side is at least 2. Then the mean over all positions -> dropout -> a linear layer.

    Args:
        input_shape: channels and sides of one example; the data knows it
        num_outputs: number of classes or target dimensions; the data knows it
        channels: width of each convolution, first to last
        kernel: side of the convolution kernels; an odd number keeps the positions centred
        dropout: share of the pooled features that is zeroed at random in training

    Reference:
        Y. LeCun et al., Gradient-Based Learning Applied to Document Recognition, Proceedings of the IEEE, 1998.

    Recipe:
        data: digits
        model: {type: small_cnn, channels: [16, 32]}
        task: classification
        optimizer: {type: adamw, lr: 3e-3}
    """

    def __init__(
        self,
        input_shape: Annotated[list[Width], Length(2, 3), FromData("input_shape")],
        num_outputs: Annotated[Count, FromData("num_outputs")],
        channels: Annotated[list[Width], Length(1, 32)] = [32, 64],  # noqa: B006 (never changed)
        kernel: Width = 3,
        dropout: Fraction = 0.0,
    ) -> None:
        super().__init__()
        if len(input_shape) not in (2, 3):
            raise ValueError(f"input_shape: needs (channels, length) or (channels, height, width), not {input_shape}")
        if kernel % 2 == 0:
            raise ValueError(f"kernel: must be odd, not {kernel}")
        self.input_shape = list(input_shape)
        self.num_outputs = num_outputs
        planar = len(input_shape) == 3
        convolution, norm, pool = (
            (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d) if planar else (nn.Conv1d, nn.BatchNorm1d, nn.MaxPool1d)
        )
        layers: list[nn.Module] = []
        inputs, side = input_shape[0], min(input_shape[1:])
        for width in channels:
            layers += [convolution(inputs, width, kernel, padding=kernel // 2, bias=False), norm(width), nn.ReLU()]
            if side >= 2:
                layers.append(pool(2))
                side //= 2
            inputs = width
        self.features = nn.Sequential(*layers)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(inputs, num_outputs)

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *sides) -> (batch, num_outputs)
        pooled = self.features(x).flatten(2).mean(dim=2)  # (batch, channels[-1])
        return self.head(self.dropout(pooled))
