"""A linear target with Gaussian noise."""

from __future__ import annotations

import pytest
import torch

from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def test_least_squares_reaches_the_noise_of_synthetic_regression() -> None:
    train = make("data/synthetic_regression", examples=20000, features=5, noise=0.3).load(0)["train"].tensors
    x, y = train["x"].double(), train["y"].double()
    residual = y - x @ torch.linalg.lstsq(x, y).solution
    assert abs(float(residual.square().mean()) - 0.09) < 0.004  # 3 standard errors: 3 · 0.09 · sqrt(2 / 14000)


def test_too_few_examples_for_the_shares_are_told() -> None:
    with pytest.raises(RunError, match=r"2 examples are too few for val: 0\.1 and test: 0\.2"):
        make("data/synthetic_regression", examples=2).load(0)
