"""Modular arithmetic: every pair once, and the right answers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.framework.registry import make


def whole(**words: Any) -> tuple[Any, torch.Tensor, torch.Tensor, dict[str, int]]:
    data = make("data/modular_arithmetic", **words)
    splits = data.load(0)
    x = torch.cat([split.tensors["x"] for split in splits.values()])
    y = torch.cat([split.tensors["y"] for split in splits.values()])
    return data, x, y, {name: len(split) for name, split in splits.items()}


def test_every_pair_stands_in_one_split() -> None:
    data, x, y, sizes = whole(p=7, train=0.4, val=0.25)
    assert sizes == {"train": 20, "val": 7, "test": 22} and len(x.unique(dim=0)) == 49
    assert torch.equal(y, (x[:, 0] + x[:, 1]) % 7)
    assert data.facts["num_classes"] == 7 and data.facts["context_length"] == 2
    assert set(whole(p=7, val=0.0)[3]) == {"train", "test"}


@pytest.mark.parametrize("op", ["sub", "mul", "div"])
def test_other_operations(op: str) -> None:
    _, x, y, _ = whole(p=7, op=op)
    a, b = x.T
    if op == "div":
        assert len(x) == 42 and int(b.min()) == 1 and torch.equal(y * b % 7, a)
    else:
        assert torch.equal(y, (a - b if op == "sub" else a * b) % 7)


def test_encodings_tell_the_same_pair() -> None:
    _, pairs, y, _ = whole(p=5)
    tokens = whole(p=5, encoding="tokens")
    assert torch.equal(tokens[1][:, :2], pairs) and (tokens[1][:, 2] == 5).all() and torch.equal(tokens[2], y)
    assert tokens[0].facts["vocab_size"] == 6 and tokens[0].facts["context_length"] == 3
    onehot = whole(p=5, encoding="onehot")[1]
    assert onehot.shape == (25, 10) and (onehot.sum(dim=1) == 2).all()
    assert torch.equal(onehot[:, :5].argmax(dim=1), pairs[:, 0])
    assert torch.equal(onehot[:, 5:].argmax(dim=1), pairs[:, 1])


def test_the_splits_follow_the_seed_unless_they_are_kept() -> None:
    free, kept = make("data/modular_arithmetic", p=7), make("data/modular_arithmetic", p=7, split_seed=3)
    first, other = (free.load(seed)["train"].tensors["x"] for seed in (0, 1))
    assert not torch.equal(first, other) and torch.equal(first, free.load(0)["train"].tensors["x"])
    assert torch.equal(*(kept.load(seed)["train"].tensors["x"] for seed in (0, 1)))


def test_division_needs_a_prime() -> None:
    with pytest.raises(ValueError, match="p: division needs a prime, not 9"):
        make("data/modular_arithmetic", p=9, op="div")
