"""Random directions for estimates from values alone."""

from __future__ import annotations

import torch
from torch import Tensor

BITS = 62  # of a random word that are used


def gauss(count: int, size: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """(count, size), independent N(0, 1)."""
    return torch.randn(count, size, dtype=like.dtype, device=like.device, generator=generator)


def sphere(count: int, size: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform on the unit sphere."""
    drawn = gauss(count, size, like, generator)
    return drawn / torch.linalg.vector_norm(drawn, dim=-1, keepdim=True)


def rademacher(count: int, size: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """Independent signs: a random word gives as many as it has bits."""
    total = count * size
    words = torch.empty(-(-total // BITS), dtype=torch.int64, device=like.device).random_(generator=generator)
    shifts = torch.arange(BITS, device=like.device)
    bits = (words.unsqueeze(1) >> shifts) & 1  # (words, BITS)
    return bits.reshape(-1)[:total].view(count, size).to(like.dtype).mul_(2).sub_(1)


def coordinates(chosen: Tensor, size: int, like: Tensor) -> Tensor:
    """One-hot rows, (..., K, size), for indices (..., K)."""
    rows = torch.zeros(*chosen.shape, size, dtype=like.dtype, device=like.device)
    return rows.scatter_(-1, chosen.unsqueeze(-1), 1.0)


DRAWS = {"gauss": gauss, "sphere": sphere, "rademacher": rademacher}
