"""Solvers that take layers apart, against what they must be where their assumptions hold."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.ihvp.datainf import closed_form
from raycipe.components.ihvp.ekfac import positions
from raycipe.framework.contracts import Dense, Layers
from raycipe.framework.curvature import Curvature
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


class Model(Dense):
    """A system that comes from a model."""

    def __init__(self, layers: Layers, size: int) -> None:
        super().__init__(torch.eye(size, dtype=torch.float64))
        self.given = layers

    def layers(self) -> Layers:
        return self.given


def system(model: nn.Module, batch: dict[str, Tensor], loss: Any, **changes: Any) -> Model:
    size = sum(p.numel() for p in model.parameters())
    settings = {"columns": torch.arange(size), "weight_decay": 0.0, "num_classes": None, **changes}
    return Model(Layers(model, loss, lambda: [batch], **settings), len(settings["columns"]))


def squared(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return 0.5 * (model(batch["x"]) - batch["y"]).square().sum(dim=1).mean()


def test_datainf_is_the_mean_of_inverses() -> None:
    generator = torch.Generator().manual_seed(0)
    g = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    b = torch.randn(4, generator=generator, dtype=torch.float64)
    eye = torch.eye(4, dtype=torch.float64)
    wanted = torch.stack([torch.linalg.solve(torch.outer(row, row) + 0.3 * eye, b) for row in g]).mean(dim=0)
    torch.testing.assert_close(closed_form(g, b, 0.3), wanted)
    lam = 0.1 * float(g.square().mean())
    torch.testing.assert_close(closed_form(g, b, None), closed_form(g, b, lam))
    assert torch.equal(closed_form(torch.zeros(7, 4, dtype=torch.float64), b, None), b)


def test_ekfac_inverts_what_a_single_example_spans() -> None:
    """With one example the matrix of a layer is (g a')(g a')' and the basis is exact."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    batch = {"x": torch.randn(1, 3, dtype=torch.float64), "y": torch.randn(1, 2, dtype=torch.float64)}
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(squared(model, batch), list(model.parameters()))])
    b = torch.randn(8, dtype=torch.float64)
    x = make("ihvp/ekfac", damping=0.2).solve(system(model, batch, squared), b).x
    wanted = torch.linalg.solve(torch.outer(gradient, gradient) + 0.2 * torch.eye(8, dtype=torch.float64), b)
    torch.testing.assert_close(x, wanted)


def test_ekfac_is_the_gauss_newton_inverse_where_inputs_and_gradients_are_independent() -> None:
    """A linear softmax layer at zero weights: all outputs are uniform, so g does not depend on a."""
    generator = torch.Generator().manual_seed(1)
    model = nn.Linear(3, 2).double()
    with torch.no_grad():
        model.weight.zero_()
        model.bias.zero_()
    x = torch.randn(20000, 3, generator=generator, dtype=torch.float64)
    batch = {"x": x, "y": torch.zeros(20000, dtype=torch.int64)}
    loss = lambda model, batch: F.cross_entropy(model(batch["x"]), batch["y"])  # noqa: E731
    b = torch.randn(8, generator=generator, dtype=torch.float64)
    given = system(model, batch, loss, num_classes=2)
    x = make("ihvp/ekfac", examples=20000, damping=0.05).solve(given, b).x
    matrix = Curvature(model, loss, [batch], kind="ggn").matrix()
    wanted = torch.linalg.solve(matrix + 0.05 * torch.eye(8, dtype=torch.float64), b)
    assert float((x - wanted).norm() / wanted.norm()) < 0.03


def test_a_convolution_is_a_linear_layer_over_its_patches() -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(2, 3, 3, stride=2, padding=1).double()
    x = torch.randn(4, 2, 6, 6, dtype=torch.float64)
    a = positions(layer, x)  # (4, 9, 19)
    weight = torch.cat([layer.weight.flatten(1), layer.bias.unsqueeze(1)], dim=1)
    torch.testing.assert_close((a @ weight.T).transpose(1, 2).reshape(4, 3, 3, 3), layer(x))


def test_layers_without_factors_are_divided_by_the_damping_and_told() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)).double()
    batch = {"x": torch.randn(9, 3, dtype=torch.float64), "y": torch.randn(9, 2, dtype=torch.float64)}
    b = torch.ones(34, dtype=torch.float64)
    found = make("ihvp/ekfac", damping=0.5).solve(system(model, batch, squared, weight_decay=0.1), b)
    torch.testing.assert_close(found.x[16:24], torch.full((8,), 1 / 0.6, dtype=torch.float64))
    assert "no curvature of 1.weight, 1.bias" in found.notes[0]
    part = torch.tensor([0, 17, 33])
    x = make("ihvp/ekfac", damping=0.5).solve(system(model, batch, squared, weight_decay=0.1, columns=part), b[:3]).x
    assert x.shape == (3,) and float(x[1]) == pytest.approx(1 / 0.6)


@pytest.mark.parametrize("name", ["ekfac", "datainf"])
def test_without_a_model_there_are_no_layers(name: str) -> None:
    with pytest.raises(RunError, match=f"ihvp/{name} looks into a model's layers"):
        make(f"ihvp/{name}").solve(Dense(torch.eye(2)), torch.ones(2))
