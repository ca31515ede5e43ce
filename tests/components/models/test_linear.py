"""One linear layer."""

from __future__ import annotations

import torch

from raycipe.framework.registry import make


def test_it_computes_wx_plus_b_on_the_flattened_input() -> None:
    model = make("models/linear", num_features=6, num_outputs=2)
    x = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
    expected = x.reshape(4, 6) @ model.layer.weight.T + model.layer.bias
    torch.testing.assert_close(model(x), expected)


def test_zero_init_and_no_bias() -> None:
    model = make("models/linear", num_features=3, num_outputs=2, bias=False, zero_init=True)
    assert [p.shape for p in model.parameters()] == [(2, 3)]
    assert float(model(torch.ones(1, 3)).detach().abs().sum()) == 0
