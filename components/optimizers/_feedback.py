"""What optimizers with error feedback share: the checks of a compressor, and another number of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from raycipe.components.optimizers._fragments import Fragment
from raycipe.framework.contracts import Compressor


def check_feedback(compressor: Compressor, fragments: Sequence[Fragment], feedback: bool) -> None:
    """Raise ValueError for a compressor that does not fit the fragments, or that error feedback would blow up."""
    try:
        plans = [compressor.plan(fragment.numel, fragment.shapes) for fragment in fragments]
    except ValueError as error:
        raise ValueError(f"compressor: {error}") from error
    omegas = [omega for omega in map(compressor.omega, plans) if omega is not None]
    if feedback and omegas and max(omegas) >= 1:
        raise ValueError(
            f"compressor: compressors/{compressor.type_name} is unbiased with a variance factor of {max(omegas):.4g}: "
            "no contraction, so that error feedback diverges; "
            "scale it down (qsgd: `scaled: true`, randk: `scaled: false`) or turn feedback off"
        )


def direction(gradient: Tensor, buffer: Tensor | None, momentum: float, nesterov: bool) -> Tensor:
    """v <- momentum · v + g, in place of `buffer`; gives v, or with nesterov g + momentum · v."""
    if buffer is None or not momentum:
        return gradient
    buffer.mul_(momentum).add_(gradient)
    return gradient.add(buffer, alpha=momentum) if nesterov else buffer


def mean_of(ranks: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """The mean over ranks, tensor by tensor, summed in rank order."""
    means = []
    for tensors in zip(*ranks, strict=True):
        total = tensors[0].clone()
        for tensor in tensors[1:]:
            total += tensor
        means.append(total.div_(len(ranks)))
    return means


def state_of(compressor_states: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
    return [dict(state) for state in compressor_states]


def squared(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of squares of all entries, as float64."""
    total: Any = torch.stack([torch.linalg.vector_norm(tensor).double() for tensor in tensors])
    return total.square().sum()
