"""A transformer that answers a question of three tokens."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.models.modular_mlp import embedding
from raycipe.framework.arguments import Count, FromData, Width
from raycipe.framework.contracts import Model
from raycipe.framework.registry import register


@register
class ModularTransformer(Model):
    """A transformer without normalization that reads tokens and gives the logits of the answer at the last one.

    h = E[x] + P; per block h <- h + A(h), h <- h + W2 relu(W1 h); logits = U h_last, with causal attention A.
    E and P start at N(0, 1 / d_model), the layers as torch's.

    Args:
        num_outputs: how many answers there are; the data knows it
        vocab_size: how many tokens; the data knows it
        context: tokens of a question; the data knows it
        d_model: width of h; must be a multiple of heads
        heads: attention heads
        d_mlp: hidden units of a block's network (null: 4 d_model)
        layers: blocks
        layernorm: normalize h before each attention and network

    Reference:
        N. Nanda, L. Chan, T. Lieberum, J. Smith, J. Steinhardt, Progress Measures for Grokking via Mechanistic
        Interpretability, ICLR 2023.

    Recipe:
        data: {type: modular_arithmetic, p: 11, encoding: tokens}
        model: {type: modular_transformer, d_model: 16, heads: 2}
        task: classification
        optimizer: {type: adamw, lr: 3e-3}
    """

    def __init__(
        self,
        num_outputs: Annotated[Width, FromData("num_outputs")],
        vocab_size: Annotated[Count, FromData("vocab_size")],
        context: Annotated[Width, FromData("context_length")],
        d_model: Width = 48,
        heads: Width = 4,
        d_mlp: Width | None = None,
        layers: Width = 1,
        layernorm: bool = False,
    ) -> None:
        super().__init__()
        if d_model % heads:
            raise ValueError(f"d_model: must be a multiple of heads ({heads}), not {d_model}")
        self.tokens = embedding(vocab_size, d_model)
        self.positions = embedding(context, d_model)
        self.blocks = nn.ModuleList(Block(d_model, heads, d_mlp or 4 * d_model, layernorm) for _ in range(layers))
        self.head = nn.Linear(d_model, num_outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, time) int64 -> (batch, num_outputs)
        h = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))  # (batch, time, d_model)
        for block in self.blocks:
            h = block(h)
        return self.head(h[:, -1])

    def shards(self) -> list[nn.Module]:
        return list(self.blocks)


class Block(nn.Module):
    """Attention and a two-layer network, each added to the stream."""

    def __init__(self, d_model: int, heads: int, d_mlp: int, layernorm: bool) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) if layernorm else nn.Identity() for _ in range(2))
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_mlp), nn.ReLU(), nn.Linear(d_mlp, d_model))

    def forward(self, h: Tensor) -> Tensor:  # (batch, time, d_model), both ways
        h = h + self.out(self._attend(self.norms[0](h)))
        return h + self.mlp(self.norms[1](h))

    def _attend(self, h: Tensor) -> Tensor:
        batch, time, width = h.shape
        shape = (batch, time, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(h).reshape(shape).permute(2, 0, 3, 1, 4)  # (batch, heads, time, d) each
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, time, width)
