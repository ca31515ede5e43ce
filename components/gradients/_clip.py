"""Shared by estimators: clipping to a ball."""

from __future__ import annotations

import torch
from torch import Tensor


def clip(gradient: Tensor, tau: Tensor | float) -> tuple[Tensor, Tensor]:
    """(g min(1, tau / |g|), whether g was longer than tau), on the last dimension.

    The projection onto the ball of radius tau: never expansive. Zero stays zero; infinity becomes NaN, no unit vector.
    """
    norm = torch.linalg.vector_norm(gradient, dim=-1, keepdim=True)
    scale = (tau / norm.clamp(min=torch.finfo(norm.dtype).tiny)).clamp(max=1.0)
    return gradient * scale, (norm > tau).squeeze(-1)


def clip_together(w: Tensor, v: Tensor, tau: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    """Both players' gradients as one vector."""
    both, clipped = clip(torch.cat([w, v], dim=-1), tau)
    return both[..., : w.shape[-1]], both[..., w.shape[-1] :], clipped
