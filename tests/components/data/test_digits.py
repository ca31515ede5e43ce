"""Handwritten digits."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits

from raycipe.framework.registry import make


def test_digits_are_1797_images_between_0_and_1() -> None:
    splits = make("data/digits").load(0)
    assert {name: len(split) for name, split in splits.items()} == {"train": 1258, "val": 180, "test": 359}
    x = torch.cat([split.tensors["x"] for split in splits.values()])
    assert x.shape == (1797, 1, 8, 8) and float(x.min()) == 0 and float(x.max()) == 1


def test_digits_are_those_of_scikit_learn() -> None:
    images, labels = load_digits(return_X_y=True)
    split = make("data/digits", val=0.0, test=0.0).load(0)["train"]  # in the order of the file
    assert np.array_equal(split.tensors["x"].reshape(-1, 64).numpy() * 16, images.astype(np.float32))
    assert np.array_equal(split.tensors["y"].numpy(), labels)


def test_split_seed_fixes_the_splits() -> None:
    first, second, moving = (
        make("data/digits", split_seed=split_seed).load(seed)["test"].tensors["x"]
        for seed, split_seed in ((0, 7), (1, 7), (1, None))
    )
    assert torch.equal(first, second) and not torch.equal(first, moving)
