"""The causal transformer."""

from __future__ import annotations

import pytest
import torch

from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def test_the_reference_size_has_115_thousand_parameters() -> None:
    model = make("models/char_transformer", vocab_size=103, context=32, d_model=64, layers=2, heads=4)
    block = 12 * 64**2 + 4 * 64 + 64 + 4 * 64  # attention 4, network 8 squares; its biases; two layer norms
    assert sum(p.numel() for p in model.parameters()) == 2 * 103 * 64 + 32 * 64 + 2 * block + 2 * 64


def test_a_position_sees_itself_and_the_past_only() -> None:
    torch.manual_seed(0)
    model = make("models/char_transformer", vocab_size=10, context=8, d_model=16, heads=4).double().eval()
    x = torch.randint(10, (1, 8), generator=torch.Generator().manual_seed(0))
    changed = x.clone()
    changed[0, 5] = (x[0, 5] + 1) % 10
    difference = (model(x) - model(changed)).abs().amax(dim=2)[0].detach()
    assert float(difference[:5].max()) < 1e-12 and float(difference[5:].min()) > 1e-6


def test_attention_equals_the_formula() -> None:
    torch.manual_seed(0)
    model = make("models/char_transformer", vocab_size=10, context=6, d_model=8, heads=2, layers=1).double()
    block = model.blocks[0]
    h = torch.randn(1, 6, 8, dtype=torch.float64)
    q, k, v = (part.reshape(6, 2, 4).transpose(0, 1) for part in block.qkv(h)[0].chunk(3, dim=1))
    scores = q @ k.transpose(1, 2) / 2 + torch.full((6, 6), float("-inf"), dtype=torch.float64).triu(1)
    expected = (scores.softmax(2) @ v).transpose(0, 1).reshape(1, 6, 8)
    torch.testing.assert_close(block._attend(h), expected)


def test_initial_loss_is_close_to_uniform_and_residual_weights_start_smaller() -> None:
    torch.manual_seed(0)
    model = make("models/char_transformer", vocab_size=50, context=16, layers=8)
    logits = model(torch.randint(50, (4, 16)))
    assert float(logits.detach().std()) < 0.3
    block = model.blocks[0]
    assert abs(float(block.mlp_out.weight.detach().std()) / (0.02 / 4) - 1) < 0.05
    assert abs(float(block.mlp_in.weight.detach().std()) / 0.02 - 1) < 0.05


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match=r"^d_model: must be a multiple of heads \(4\), not 6"):
        make("models/char_transformer", vocab_size=5, context=4, d_model=6)
    model = make("models/char_transformer", vocab_size=5, context=4)
    with pytest.raises(RunError, match="a sequence of 5 tokens is longer than the model's context of 4"):
        model(torch.zeros(1, 5, dtype=torch.int64))
    assert model(torch.zeros(1, 3, dtype=torch.int64)).shape == (1, 3, 5)
    assert model.shards() == list(model.blocks)
