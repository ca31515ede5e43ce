"""Language modeling: a mean over tokens, whatever is padded."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from raycipe.framework.contracts import TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

LOGITS = torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[0.0, 0.0], [3.0, 0.0]]])  # (batch, time, vocab)


def test_loss_is_the_mean_over_the_tokens_that_count() -> None:
    task = make("tasks/language_modeling", vocab_size=2)
    batch = {"x": LOGITS, "y": torch.tensor([[0, 1], [1, -100]])}
    loss = task.loss(nn.Identity(), batch)
    log = LOGITS.log_softmax(2)
    torch.testing.assert_close(loss.value, -(log[0, 0, 0] + log[0, 1, 1] + log[1, 0, 1]) / 3)
    assert loss.weight is not None and loss.weight.item() == 3
    assert task.scores(loss.outputs, batch)["accuracy"].item() == 2


def test_a_batch_of_padding_alone_weighs_nothing() -> None:
    batch = {"x": LOGITS, "y": torch.full((2, 2), -100)}
    loss = make("tasks/language_modeling", vocab_size=2).loss(nn.Identity(), batch)
    assert loss.value.item() == 0 and loss.weight is not None and loss.weight.item() == 0


def test_perplexity_and_bits_follow_from_the_mean_loss() -> None:
    finish = make("tasks/language_modeling", vocab_size=2).finish
    assert finish({"loss": math.log(2)}) == pytest.approx(
        {"loss": math.log(2), "perplexity": 2.0, "bits_per_token": 1.0}
    )
    assert finish({"loss": 1000.0})["perplexity"] == math.inf


def test_unusable_tokens_are_named() -> None:
    task = make("tasks/language_modeling", vocab_size=4)
    y = torch.tensor([[0, -100], [1, 4]])
    with pytest.raises(RunError, match=r"train: example 1 has token 4, outside 0 \.\. 3"):
        task.check({}, {"train": TensorSplit({"x": y.clamp(0, 3), "y": y})})
    with pytest.raises(RunError, match="train: x must be int64, not float32"):
        task.check({}, {"train": TensorSplit({"x": torch.ones(2, 2), "y": y})})
