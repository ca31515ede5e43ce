"""The next token."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.tasks._checks import fits, require_dtype, require_range, tensors
from raycipe.framework.arguments import FromData, Range
from raycipe.framework.contracts import Batch, Loss, Split, Task
from raycipe.framework.registry import register

IGNORED = -100  # target of a position that counts for nothing (padding)


@register
class LanguageModeling(Task):
    """Predicts the next token; reports loss (nats a token), perplexity, bits a token, and accuracy.

    loss = -(1/n) sum over tokens of log softmax(f(x)_t)[y_t]; perplexity = exp(loss), bits = loss / ln 2.
    x and y are (batch, time) int64, y being x one step later; the model gives (batch, time, vocab_size). Positions with
    y = -100 do not count: every mean is over the n tokens that do, also across workers and short batches.

    Args:
        vocab_size: number of different tokens; the data knows it

    Recipe:
        data: {type: text_file, context: 32}
        model: {type: char_transformer, d_model: 32, layers: 1, heads: 2}
        task: language_modeling
        optimizer: {type: adamw, lr: 1e-3}
    """

    reports: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "perplexity", "bits_per_token")

    def __init__(self, vocab_size: Annotated[int, Range(ge=2, le=10**9), FromData("vocab_size")]) -> None:
        self.vocab_size = vocab_size

    def check_outputs(self, outputs: Any, batch: Batch) -> str | None:
        shape = (*batch["x"].shape, self.vocab_size)
        return None if fits(outputs, shape) else f"{shape} floating: a logit for each token of the vocabulary"

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        logits = model(batch["x"])  # (batch, time, vocab_size)
        y = batch["y"]
        counted = (y != IGNORED).sum()
        total = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=IGNORED, reduction="sum")
        return Loss(total / counted.clamp(min=1), logits, weight=counted.float())

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": (outputs.detach().argmax(dim=2) == batch["y"]).sum()}

    def finish(self, values: dict[str, float]) -> dict[str, float]:
        loss = values["loss"]
        perplexity = math.exp(loss) if loss < 700 else math.inf  # exp overflows beyond
        return {**values, "perplexity": perplexity, "bits_per_token": loss / math.log(2)}

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        hint = "language modeling takes tokens: use a text data component"
        for name, values in tensors(splits):
            for key in ("x", "y"):
                require_dtype(name, key, values[key], (torch.int64,), hint)
                ignore = IGNORED if key == "y" else None
                require_range(name, "token", values[key], self.vocab_size, "vocab_size is too small", ignore)
