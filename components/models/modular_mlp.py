"""A network on pairs of embedded numbers."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from raycipe.components.models.mlp import ACTIVATIONS
from raycipe.framework.arguments import FromData, Width
from raycipe.framework.contracts import Model
from raycipe.framework.registry import register


@register
class ModularMlp(Model):
    """A two-layer network on the embeddings of two numbers: f(a, b) = W act(V [E_a; E_b] + c).

    x is (batch, 2) int64, numbers below p; further columns are left alone. E starts at N(0, 1 / d_embed), the layers as
    torch's.

    Args:
        p: how many numbers there are; the data knows it
        d_embed: length of an embedding
        width: hidden units
        activation: quadratic networks generalize soonest, gelu ones late
        share_embedding: whether a and b have one embedding

    Reference:
        A. Gromov, Grokking Modular Arithmetic, 2023.

    Recipe:
        data: {type: modular_arithmetic, p: 11}
        model: {type: modular_mlp, d_embed: 16, width: 32, activation: quadratic}
        task: classification
        optimizer: {type: adamw, lr: 1e-2}
    """

    def __init__(
        self,
        p: Annotated[Width, FromData("num_classes")],
        d_embed: Width = 32,
        width: Width = 128,
        activation: Literal["relu", "quadratic", "gelu", "tanh"] = "relu",
        share_embedding: bool = True,
    ) -> None:
        super().__init__()
        self.first = embedding(p, d_embed)
        self.second = None if share_embedding else embedding(p, d_embed)
        self.hidden = nn.Linear(2 * d_embed, width)
        self.activation = ACTIVATIONS[activation]()
        self.head = nn.Linear(width, p, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, 2) int64 -> (batch, p)
        second = self.first if self.second is None else self.second
        both = torch.cat([self.first(x[:, 0]), second(x[:, 1])], dim=1)  # (batch, 2 d_embed)
        return self.head(self.activation(self.hidden(both)))


def embedding(count: int, width: int) -> nn.Embedding:
    """Entries ~ N(0, 1 / width)."""
    made = nn.Embedding(count, width)
    nn.init.normal_(made.weight, std=width**-0.5)
    return made
