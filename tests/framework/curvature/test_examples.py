"""Gradients of single examples against one backward pass for each."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from raycipe.framework.contracts import Batch
from raycipe.framework.curvature import example_gradients, examples, mean_square_gradient


def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])


def setting() -> tuple[nn.Module, list[Batch]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)).double().eval()
    x, y = torch.randn(11, 4, dtype=torch.float64), torch.randint(0, 3, (11,))
    return model, [{"x": x[:7], "y": y[:7]}, {"x": x[7:], "y": y[7:]}]


def one_by_one(model: nn.Module, batches: list[Batch]) -> torch.Tensor:
    rows = []
    for batch in batches:
        for i in range(len(batch["y"])):
            value = loss(model, {name: tensor[i : i + 1] for name, tensor in batch.items()})
            rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(value, list(model.parameters()))]))
    return torch.stack(rows)


def test_rows_are_the_gradients_of_single_examples(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    model, batches = setting()
    wanted = one_by_one(model, batches)
    torch.testing.assert_close(torch.cat(list(example_gradients(model, loss, batches))), wanted)
    monkeypatch.setattr(examples, "CHUNK_FLOATS", 3 * wanted.shape[1])
    parts = list(example_gradients(model, loss, batches))
    assert [len(part) for part in parts] == [3, 3, 1, 3, 1]
    torch.testing.assert_close(torch.cat(parts), wanted)


def test_columns_can_be_those_of_some_parameters() -> None:
    model, batches = setting()
    wanted = one_by_one(model, batches)[:, -18:]
    found = torch.cat(list(example_gradients(model, loss, batches, ["3.weight", "3.bias"])))
    torch.testing.assert_close(found, wanted)


def test_the_mean_of_squares_is_over_all_examples() -> None:
    model, batches = setting()
    wanted = one_by_one(model, batches).square().mean(dim=0)
    torch.testing.assert_close(mean_square_gradient(model, loss, batches), wanted)
