"""gauss_auc: its moments, and splits that do not depend on each other's size."""

from __future__ import annotations

import pytest
import torch

from raycipe.framework.registry import make


@pytest.mark.parametrize("tail", ["gauss", "student3"])
def test_means_and_variances_are_those_announced(tail: str) -> None:
    data = make("data/gauss_auc", examples=100_000, test=10, dim=3, tail=tail)
    tensors = data.load(0)["train"].tensors
    mean, variances = data.moments()
    sign = (2 * tensors["y"] - 1).unsqueeze(1)
    noise = tensors["x"] * sign - torch.from_numpy(mean)
    assert float(noise.mean(0).abs().max()) < 0.01
    torch.testing.assert_close(noise.double().var(0), torch.from_numpy(variances), rtol=0.15, atol=0)
    assert float(tensors["y"].double().mean()) == pytest.approx(0.3, abs=0.005)
    assert variances.sum() == pytest.approx(1) and float((mean**2).sum() ** 0.5) == pytest.approx(0.35)


def test_the_size_of_the_test_split_leaves_the_training_examples_alone() -> None:
    small, large = (make("data/gauss_auc", examples=20, test=size).load(3)["train"].tensors for size in (5, 50))
    assert torch.equal(small["x"], large["x"])
