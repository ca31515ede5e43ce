"""Gradients of single examples, many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from raycipe.framework.contracts import Batch
from raycipe.framework.curvature.operator import LossOf

CHUNK_FLOATS = 4_000_000  # of gradients that exist at the same time


class _Alone(nn.Module):
    """The loss of one example, as a module: its parameters can be replaced."""

    def __init__(self, model: nn.Module, loss: LossOf) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, example: Batch) -> Tensor:
        found = self.loss(self.model, {name: value.unsqueeze(0) for name, value in example.items()})
        return found if isinstance(found, Tensor) else found.value


def example_gradients(
    model: nn.Module, loss: LossOf, batches: Iterable[Batch], names: Sequence[str] | None = None
) -> Iterator[Tensor]:
    """Rows (n, p) of the examples' loss gradients, in their order, a chunk at a time as memory allows.

    The columns are the named parameters (default: all with `requires_grad`), flat and in the order of
    `model.named_parameters()`. The model should be in eval mode; it and the random generators stay as they are.
    """
    alone = _Alone(model, loss)
    named = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad or names is not None}
    chosen = {f"model.{name}": p for name, p in named.items() if names is None or name in names}
    rest = {f"model.{name}": p.detach() for name, p in model.named_parameters() if f"model.{name}" not in chosen}
    rest |= {f"model.{name}": buffer for name, buffer in model.named_buffers()}
    rows = max(1, CHUNK_FLOATS // max(1, sum(p.numel() for p in chosen.values())))

    def value(parameters: dict[str, Tensor], example: Batch) -> Tensor:
        found: Tensor = functional_call(alone, (parameters, rest), (example,))
        return found

    of_each = vmap(grad(value), in_dims=(None, 0))
    for batch in batches:
        for part in zip(*(torch.split(tensor, rows) for tensor in batch.values()), strict=True):
            found = of_each(chosen, dict(zip(batch, part, strict=True)))
            yield torch.cat([found[name].flatten(1) for name in chosen], dim=1)


def mean_square_gradient(model: nn.Module, loss: LossOf, batches: Iterable[Batch]) -> Tensor:
    """(p,) float64: the mean over examples of their squared gradients, the diagonal of the empirical Fisher matrix."""
    total, count = None, 0
    for rows in example_gradients(model, loss, batches):
        squares = rows.square().sum(dim=0, dtype=torch.float64)
        total = squares if total is None else total + squares
        count += len(rows)
    if total is None:
        raise ValueError("batches: there are none")
    return total / count
