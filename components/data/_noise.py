"""Shared by the synthetic data: noise with light and heavy tails."""

from __future__ import annotations

import numpy as np


def standard_noise(generator: np.random.Generator, tail: str, size: tuple[int, ...]) -> np.ndarray:
    """Independent entries of mean 0 and variance 1; `student3` (3 degrees of freedom) has no fourth moment."""
    if tail == "gauss":
        return generator.normal(size=size)
    return generator.standard_t(3, size=size) / np.sqrt(3.0)
