"""Breast tumours."""

from __future__ import annotations

import torch

from raycipe.framework.registry import make


def test_breast_cancer_is_standardized_by_its_training_rows() -> None:
    train = make("data/breast_cancer").load(0)["train"].tensors["x"]
    torch.testing.assert_close(train.mean(0), torch.zeros(30), rtol=0, atol=1e-5)
    raw = make("data/breast_cancer", standardize=False).load(0)["train"].tensors["x"]
    assert float(raw.max()) > 1000


def test_split_seed_fixes_the_splits() -> None:
    first, second, moving = (
        make("data/breast_cancer", split_seed=split_seed).load(seed)["test"].tensors["x"]
        for seed, split_seed in ((0, 7), (1, 7), (1, None))
    )
    assert torch.equal(first, second) and not torch.equal(first, moving)
