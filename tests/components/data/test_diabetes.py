"""diabetes: its size and scale."""

from __future__ import annotations

import pytest

from raycipe.framework.registry import make


def test_training_examples_have_mean_zero_and_deviation_one() -> None:
    splits = make("data/diabetes").load(0)
    assert {name: len(split) for name, split in splits.items()} == {"train": 310, "val": 44, "test": 88}
    for values in splits["train"].tensors.values():
        assert float(values.mean(0).abs().max()) < 1e-5 and float(values.std(0, correction=0).max()) == pytest.approx(1)
    raw = make("data/diabetes", standardize=False).load(0)["train"].tensors["y"]
    assert float(raw.min()) >= 25 and float(raw.max()) <= 346
