"""A small causal transformer."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.framework.arguments import Count, Fraction, FromData, Width
from raycipe.framework.contracts import Model
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class CharTransformer(Model):
    """A causal pre-norm transformer over tokens: the next token's logits at every position.

    h = E[x] + P;  per block h <- h + A(LN(h)), h <- h + W2 gelu(W1 LN(h));  logits = W LN(h).
    A is causal multi-head attention softmax(Q K^T / sqrt(d_head)) V. Weights start at N(0, 0.02²); those that write
    into h (the last of A, W2) at that divided by sqrt(2 layers).

    Args:
        vocab_size: number of different tokens; the data knows it
        context: longest sequence, the number of learned positions; the data knows it
        d_model: width of h; must be a multiple of heads
        layers: number of blocks
        heads: attention heads per block
        dropout: share of activations that is zeroed at random in training

    Reference:
        A. Radford et al., Language Models are Unsupervised Multitask Learners, OpenAI, 2019.

    Recipe:
        data: {type: text_file, context: 32}
        model: {type: char_transformer, d_model: 64, layers: 2, heads: 4}
        task: language_modeling
        optimizer: {type: adamw, lr: 1e-3}
    """

    def __init__(
        self,
        vocab_size: Annotated[Count, FromData("vocab_size")],
        context: Annotated[Width, FromData("context_length")],
        d_model: Width = 64,
        layers: Width = 2,
        heads: Width = 4,
        dropout: Fraction = 0.0,
    ) -> None:
        super().__init__()
        if d_model % heads:
            raise ValueError(f"d_model: must be a multiple of heads ({heads}), not {d_model}")
        self.vocab_size = vocab_size
        self.context = context
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(context, d_model)
        self.blocks = nn.ModuleList(Block(d_model, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                std = 0.02 / (2 * layers) ** 0.5 if name.endswith("_out.weight") else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(self, x: Tensor) -> Tensor:  # (batch, time) int64 -> (batch, time, vocab_size)
        if x.shape[1] > self.context:
            message = f"a sequence of {x.shape[1]} tokens is longer than the model's context of {self.context}"
            raise RunError("data", message, "raise model.context or lower data.context", where="model.context")
        places = torch.arange(x.shape[1], device=x.device)
        h = self.tokens(x) + self.positions(places)  # (batch, time, d_model)
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))

    def shards(self) -> list[nn.Module]:
        return list(self.blocks)


class Block(nn.Module):
    """Attention and a two-layer network, each normalized before and added to the stream."""

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.attention_norm = nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.attention_out = nn.Linear(d_model, d_model, bias=False)
        self.mlp_norm = nn.LayerNorm(d_model)
        self.mlp_in = nn.Linear(d_model, 4 * d_model)
        self.mlp_out = nn.Linear(4 * d_model, d_model)

    def forward(self, h: Tensor) -> Tensor:  # (batch, time, d_model), both ways
        h = h + self._drop(self.attention_out(self._attend(self.attention_norm(h))))
        return h + self._drop(self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(h)))))

    def _attend(self, h: Tensor) -> Tensor:
        batch, time, width = h.shape
        shape = (batch, time, self.heads, width // self.heads)
        q, k, v = (
            part.reshape(shape).transpose(1, 2) for part in self.qkv(h).chunk(3, dim=2)
        )  # (batch, heads, time, d)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, time, width)

    def _drop(self, h: Tensor) -> Tensor:
        return F.dropout(h, self.dropout, self.training)
