"""The two models of modular arithmetic."""

from __future__ import annotations

import pytest
import torch

from raycipe.framework.registry import make


def count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_sizes_are_those_of_the_literature() -> None:
    assert count(make("models/modular_mlp", p=47)) == 15840
    assert count(make("models/modular_mlp", p=31)) == 13280
    transformer = make("models/modular_transformer", num_outputs=47, vocab_size=48, context=3, d_model=48)
    assert count(transformer) == 32592


def test_the_network_is_its_formula() -> None:
    torch.manual_seed(0)
    model = make("models/modular_mlp", p=5, d_embed=3, width=4, activation="quadratic", share_embedding=False)
    x = torch.tensor([[1, 4], [0, 2]])
    both = torch.cat([model.first.weight[x[:, 0]], model.second.weight[x[:, 1]]], dim=1)
    wanted = (both @ model.hidden.weight.T + model.hidden.bias) ** 2 @ model.head.weight.T
    torch.testing.assert_close(model(x), wanted)


def test_the_transformer_reads_all_tokens_and_answers_at_the_last() -> None:
    torch.manual_seed(0)
    model = make(
        "models/modular_transformer",
        num_outputs=5,
        vocab_size=6,
        context=3,
        d_model=8,
        heads=2,
        layers=2,
        layernorm=True,
    ).double()
    x = torch.tensor([[1, 4, 5]])
    base = model(x)
    assert base.shape == (1, 5)
    for place in range(3):
        changed = x.clone()
        changed[0, place] = 2
        assert not torch.allclose(model(changed), base)
    with pytest.raises(ValueError, match="d_model: must be a multiple of heads"):
        make("models/modular_transformer", num_outputs=5, vocab_size=6, context=3, d_model=9)


def test_an_mlp_may_do_without_biases() -> None:
    model = make("models/mlp", num_features=94, num_outputs=47, hidden=[64], activation="quadratic", bias=False)
    assert count(model) == 9024
    x = torch.randn(3, 94)
    torch.testing.assert_close(model(2 * x), 4 * model(x))
