"""Random numbers of compressors: fast, from a key of their own, never from a global generator.

On a CPU they come from NumPy's SFC64, several times faster than torch's generator; other devices use their own.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class Bits15:
    """A source of whole numbers uniform in 0 .. 32767 (int16), drawn in portions."""

    def __init__(self, key: int, device: torch.device) -> None:
        self.device = device
        self._cpu = np.random.Generator(np.random.SFC64(key)) if device.type == "cpu" else None
        self._other = None if self._cpu else torch.Generator(device).manual_seed(key)

    def draw(self, count: int) -> Tensor:
        if self._cpu is None:
            return torch.randint(0, 1 << 15, (count,), dtype=torch.int16, device=self.device, generator=self._other)
        words = self._cpu.integers(0, 1 << 64, -(-count // 4), dtype=np.uint64)  # four lanes of 16 bits each
        return torch.from_numpy(words.view(np.int16)[:count]).bitwise_and_(0x7FFF)


def below(key: int, bound: int, count: int, device: torch.device) -> Tensor:
    """`count` whole numbers (int64) uniform in 0 .. bound - 1."""
    if device.type != "cpu":
        return torch.randint(0, bound, (count,), device=device, generator=torch.Generator(device).manual_seed(key))
    return torch.from_numpy(np.random.Generator(np.random.SFC64(key)).integers(0, bound, count))


def coin(key: int) -> float:
    """One number uniform in [0, 1), the same on every device."""
    return float(np.random.Generator(np.random.SFC64(key)).random())
