"""Gaussian clusters."""

from __future__ import annotations

import torch

from raycipe.framework.registry import make


def test_nearest_centre_of_synthetic_classification_is_as_good_as_theory() -> None:
    data = make("data/synthetic_classification", examples=20000, features=2, classes=2, separation=2.0)
    train = data.load(1)["train"].tensors
    centres = torch.stack([train["x"][train["y"] == label].mean(0) for label in (0, 1)])
    right = (torch.cdist(train["x"], centres).argmin(1) == train["y"]).float().mean()
    half = float((centres[0] - centres[1]).norm()) / 2
    assert abs(float(right) - float(torch.distributions.Normal(0, 1).cdf(torch.tensor(half)))) < 0.011


def test_label_noise_redraws_that_share_of_labels() -> None:
    clean = make("data/synthetic_classification", examples=20000, classes=4).load(0)["train"].tensors
    noisy = make("data/synthetic_classification", examples=20000, classes=4, label_noise=0.4).load(0)["train"].tensors
    assert torch.equal(clean["x"], noisy["x"])
    assert abs(float((clean["y"] != noisy["y"]).float().mean()) - 0.3) < 0.012  # 0.4 · 3/4
