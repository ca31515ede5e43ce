"""Shared by torch's own optimizers: whether the fused kernels can take these parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

DEVICES = ("cpu", "cuda")


def as_list(params: Any) -> list[Any]:
    """`params` as a list (it may be a generator, which can be read only once): of tensors, or of groups."""
    groups = list(params)
    return [{**group, "params": list(group["params"])} if isinstance(group, dict) else group for group in groups]


def choose_fused(params: list[Any], fused: bool | None) -> bool:
    """`fused`, or where it is None: whether every parameter is a plain floating-point tensor on a device with kernels.

    Sharded parameters (DTensor) are no plain tensors: not every fused kernel knows how to shard.
    """
    if fused is not None:
        return fused
    tensors = [p for group in params for p in (group["params"] if isinstance(group, dict) else [group])]
    return all(_is_plain(p) for p in tensors)


def _is_plain(parameter: Tensor) -> bool:
    is_dense = type(parameter) in (Tensor, torch.nn.Parameter)
    return is_dense and parameter.is_floating_point() and parameter.device.type in DEVICES
