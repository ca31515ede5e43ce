"""A logistic model: sizes of features, and log-odds as told."""

from __future__ import annotations

import pytest
import torch

from raycipe.framework.registry import make


def test_moments_and_difficulty() -> None:
    splits = make("data/synthetic_logistic", examples=20_000, test=100, features=20, signal=3.0).load(2)
    x, y = splits["train"].tensors["x"].double(), splits["train"].tensors["y"].double()
    assert float(x.square().sum(1).mean()) == pytest.approx(1, rel=0.03)
    direction = ((y - 0.5).unsqueeze(1) * x).mean(0)
    scores = 3.0 * 20**0.5 * (x @ (direction / direction.norm()))
    for low, high in ((-2, -1), (0, 1), (1, 2)):  # the share of ones where the log-odds are such
        there = (scores > low) & (scores < high)
        assert float(y[there].mean()) == pytest.approx(float(torch.sigmoid(scores[there]).mean()), abs=0.05)
    assert len(splits["test"]) == 100
