"""Shared by the solvers that take a model apart: vectors by parameter, and what they need."""

from __future__ import annotations

import torch
from torch import Tensor

from raycipe.components.ihvp._square import require_square
from raycipe.framework.contracts import Layers, System
from raycipe.framework.errors import RunError


def require_layers(system: System, type_: str) -> Layers:
    """Raise RunError for a tall system, or one that comes from no model."""
    require_square(system, type_)
    layers = system.layers()
    if layers is None:
        raise RunError("recipe", f"ihvp/{type_} looks into a model's layers, and here is none", where="editor.ihvp")
    return layers


def spread(layers: Layers, b: Tensor) -> dict[str, Tensor]:
    """b (columns,) as parameter name -> tensor of its shape, zero where nothing was selected; in float64."""
    named = [(name, p) for name, p in layers.model.named_parameters() if p.requires_grad]
    whole = torch.zeros(sum(p.numel() for _, p in named), dtype=torch.float64, device=b.device)
    whole[layers.columns] = b.double()
    parts = torch.split(whole, [p.numel() for _, p in named])
    return {name: part.reshape(p.shape) for (name, p), part in zip(named, parts, strict=True)}


def gathered(layers: Layers, parts: dict[str, Tensor], like: Tensor) -> Tensor:
    """The entries of the columns, (columns,)."""
    return torch.cat([part.reshape(-1) for part in parts.values()])[layers.columns].to(like)
