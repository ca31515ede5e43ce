"""Rare positives."""

from __future__ import annotations

import pytest
import torch

from raycipe.framework.registry import make


def test_positives_are_as_rare_as_asked_and_drawn_by_the_seed() -> None:
    data = make("data/imbalanced", examples=5000, positives=0.02, label_noise=0)
    splits = data.load(0)
    assert {name: len(split) for name, split in splits.items()} == {"train": 3000, "val": 500, "test": 1500}
    labels = torch.cat([split.tensors["y"] for split in splits.values()])
    assert float(labels.double().mean()) == pytest.approx(0.02, abs=0.001)
    assert data.facts["class_names"] == ["negative", "positive"]
    again, other = data.load(0), data.load(1)
    assert torch.equal(splits["train"].tensors["x"], again["train"].tensors["x"])
    assert not torch.equal(splits["train"].tensors["x"], other["train"].tensors["x"])


def test_more_informative_features_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="informative: 8 of 4 features"):
        make("data/imbalanced", features=4)
