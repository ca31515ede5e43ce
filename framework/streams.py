"""Random streams: one per use, by name, so that adding a use never moves another.

A stream's key is `SeedSequence([seed, crc32(name), ...])`; `seed + 1` is never used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    import torch


def key(seed: int, name: str, *parts: int) -> int:
    """A 63-bit key for the use `name` (and counters such as rank, epoch or example)."""
    state = np.random.SeedSequence([seed, crc32(name.encode()), *parts]).generate_state(2, np.uint32)
    return (int(state[0]) << 32 | int(state[1])) >> 1


def numpy_generator(seed: int, name: str, *parts: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, crc32(name.encode()), *parts]))


def torch_generator(seed: int, name: str, *parts: int) -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(key(seed, name, *parts))
