"""Products with the Hessian and the Gauss-Newton matrix against matrices that are known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian
from torch.nn import functional as F

from raycipe.framework.contracts import Loss
from raycipe.framework.curvature import Curvature


def cross_entropy(model: nn.Module, batch: dict[str, Tensor]) -> Loss:
    outputs = model(batch["x"])
    return Loss(F.cross_entropy(outputs, batch["y"]), outputs)


def half_square(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return (model(batch["x"]) - batch["y"]).square().sum(dim=1).mean() / 2


def network(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(dropout), nn.Linear(4, 3))


def data(count: int = 10, seed: int = 1) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(count, 3, generator=generator, dtype=torch.float64),
        "y": torch.randint(0, 3, (count,), generator=generator),
    }


def split(batch: dict[str, Tensor], *sizes: int) -> list[dict[str, Tensor]]:
    return [
        dict(zip(batch, parts, strict=True))
        for parts in zip(*(batch[name].split(list(sizes)) for name in batch), strict=True)
    ]


def explicit(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The Hessian by torch.func, in the order of named_parameters."""
    weights = {name: p.detach().double() for name, p in model.named_parameters()}
    names = list(weights)

    def loss(values: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(functional_call(model, values, (batch["x"],)), batch["y"])

    blocks: Any = hessian(loss)(weights)
    rows = [
        torch.cat([blocks[a][b].reshape(weights[a].numel(), weights[b].numel()) for b in names], dim=1) for a in names
    ]
    return torch.cat(rows)


def test_matrix_and_products_are_the_explicit_hessian_for_any_batches() -> None:
    model, whole = network(), data()
    wanted = explicit(model, whole)
    for batches in ([whole], split(whole, 6, 3, 1)):
        operator = Curvature(model, cross_entropy, batches)
        torch.testing.assert_close(operator.matrix(), wanted, rtol=1e-10, atol=1e-12)
        vectors = torch.randn(4, operator.size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        torch.testing.assert_close(operator.product(vectors), vectors @ wanted, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(operator.product(vectors[0]), wanted @ vectors[0], rtol=1e-10, atol=1e-12)


def test_graphs_that_are_too_large_to_keep_give_the_same_bits() -> None:
    model, batches = network(), split(data(), 6, 4)
    vector = torch.linspace(-1, 1, 31, dtype=torch.float64)
    kept, anew = Curvature(model, cross_entropy, batches), Curvature(model, cross_entropy, batches, kept_bytes=0)
    assert torch.equal(kept.product(vector), anew.product(vector))
    assert torch.equal(kept.product(vector), anew.product(vector))  # of kept graphs this time
    assert kept._graphs is not None and anew._graphs is None


def test_the_model_and_the_random_generators_stay_as_they_are() -> None:
    model = network(dropout=0.5)
    model.train()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    operator = Curvature(model, cross_entropy, [data()])
    vector = torch.ones(operator.size)
    assert torch.equal(operator.product(vector), operator.product(vector))
    assert model.training and torch.equal(before, torch.get_rng_state())
    assert all(p.grad is None and p.requires_grad and p.dtype == torch.float32 for p in model.parameters())


def test_gauss_newton_of_a_linear_model_is_its_hessian() -> None:
    torch.manual_seed(0)
    model, batches = nn.Linear(3, 3), split(data(), 7, 3)
    ggn = Curvature(model, cross_entropy, batches, kind="ggn").matrix()
    torch.testing.assert_close(ggn, Curvature(model, cross_entropy, batches).matrix(), rtol=1e-10, atol=1e-12)


def test_gauss_newton_is_the_jacobian_s_product_and_positive() -> None:
    model, batch = network(), data()
    found = Curvature(model, cross_entropy, [batch], kind="ggn").matrix()
    weights = {name: p.detach().double() for name, p in model.named_parameters()}
    jacobians: Any = torch.func.jacrev(lambda values: functional_call(model, values, (batch["x"],)))(weights)
    jacobian = torch.cat([jacobians[name].reshape(10, 3, -1) for name in weights], dim=2)  # (examples, K, size)
    probabilities = functional_call(model, weights, (batch["x"],)).softmax(dim=1)
    inner = torch.diag_embed(probabilities) - probabilities[:, :, None] * probabilities[:, None, :]
    wanted = torch.einsum("nki,nkl,nlj->ij", jacobian, inner, jacobian) / 10
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    assert float(torch.linalg.eigvalsh(found).min()) > -1e-12


def test_linear_regression_s_hessian_is_the_covariance() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    model = nn.Linear(4, 1, bias=False)
    batch = {"x": x, "y": torch.randn(20, 1, generator=generator, dtype=torch.float64)}
    operator = Curvature(model, half_square, [batch])
    torch.testing.assert_close(operator.matrix(), x.T @ x / 20, rtol=1e-10, atol=1e-12)
    gradient = ((x @ model.weight.detach().double().T - batch["y"]) * x).mean(dim=0)
    torch.testing.assert_close(operator.gradient(), gradient, rtol=1e-10, atol=1e-12)


def test_softmax_at_zero_logits_is_a_kronecker_product() -> None:
    batch, classes = data(), 3
    model = nn.Linear(3, classes, bias=False)
    nn.init.zeros_(model.weight)
    inner = torch.eye(classes, dtype=torch.float64) / classes - 1 / classes**2
    wanted = torch.kron(inner, batch["x"].T @ batch["x"] / 10)
    found = Curvature(model, cross_entropy, [batch]).matrix()
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def test_masks_give_the_rows_and_columns_that_they_select() -> None:
    model, batch = network(), data()
    mask = torch.zeros(4, 3, dtype=torch.bool)
    mask[1, 2] = mask[3, 0] = True
    operator = Curvature(model, cross_entropy, [batch], masks={"0.weight": mask, "3.bias": torch.ones(3)})
    chosen = torch.tensor([5, 9, 28, 29, 30])
    wanted = explicit(model, batch)[chosen][:, chosen]
    torch.testing.assert_close(operator.matrix(), wanted, rtol=1e-10, atol=1e-12)
    named = operator.named(torch.arange(1.0, 6.0))
    assert named["0.weight"][1, 2] == 1 and named["0.weight"].sum() == 3 and named["3.bias"].tolist() == [3, 4, 5]
    assert torch.equal(operator.point[:2], model.get_parameter("0.weight").detach().double()[mask])


def test_frozen_parameters_do_not_count_and_tied_ones_count_once() -> None:
    model = network()
    model.get_parameter("0.weight").requires_grad_(False)
    assert Curvature(model, cross_entropy, [data()]).size == 31 - 12
    tied = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Tanh(), nn.Linear(3, 3, bias=False))
    tied[2].weight = tied[0].weight
    operator = Curvature(tied, cross_entropy, [data()])
    assert operator.size == 9
    difference = finite_difference(operator)
    torch.testing.assert_close(operator.matrix(), difference, rtol=1e-5, atol=1e-7)


def finite_difference(operator: Curvature) -> Tensor:
    """The Hessian from the gradients around the point, which the operator is given back."""
    start, step, columns = operator.point.clone(), 1e-5, []
    for unit in torch.eye(operator.size, dtype=torch.float64):
        slopes = []
        for sign in (1, -1):
            operator.move_to(start + sign * step * unit)
            slopes.append(operator.gradient())
        columns.append((slopes[0] - slopes[1]) / (2 * step))
    operator.move_to(start)
    return torch.stack(columns)


def test_moved_to_other_weights_it_is_the_matrix_there() -> None:
    model, batch = network(), data()
    operator = Curvature(model, cross_entropy, [batch])
    operator.product(torch.ones(31))
    operator.move_to(2 * operator.point)
    doubled = network()
    with torch.no_grad():
        for parameter in doubled.parameters():
            parameter *= 2
    torch.testing.assert_close(operator.matrix(), explicit(doubled, batch), rtol=1e-10, atol=1e-12)


def test_a_loss_that_weighs_its_batches_otherwise_is_followed() -> None:
    model, batches = network(), split(data(), 5, 5)
    batches[0]["weight"], batches[1]["weight"] = torch.tensor([3.0]), torch.tensor([1.0])

    def weighted(model: nn.Module, batch: dict[str, Tensor]) -> Loss:
        return Loss(cross_entropy(model, batch).value, None, batch["weight"].sum())

    found = Curvature(model, weighted, batches).product(torch.ones(31))
    wanted = (3 * explicit(model, batches[0]) + explicit(model, batches[1])).double().sum(dim=1) / 4
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 6)

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.inner(x)[:, None, :, None].split(3, dim=2)
        return F.scaled_dot_product_attention(q, k, k).reshape(len(x), 3)


def test_fused_attention_has_its_second_derivatives() -> None:
    torch.manual_seed(0)
    operator = Curvature(Attention(), cross_entropy, [data()])
    torch.testing.assert_close(operator.matrix(), finite_difference(operator), rtol=1e-5, atol=1e-7)


def test_a_linear_loss_has_no_curvature() -> None:
    operator = Curvature(nn.Linear(3, 1), lambda model, batch: model(batch["x"]).mean(), [data()])
    assert float(operator.matrix().abs().max()) == 0


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("masks: the model has no parameter 'b'", {"masks": {"b": torch.ones(3)}}),
        ("masks: '0.bias' has shape", {"masks": {"0.bias": torch.ones(3)}}),
        ("batches: there are none", {"batches": []}),
        ("kind: must be hessian or ggn", {"kind": "fisher"}),
    ],
)
def test_wrong_arguments_are_told(words: str, change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"batches": [data()], **change}
    with pytest.raises(ValueError, match=words):
        Curvature(network(), cross_entropy, **given)
    with pytest.raises(ValueError, match="vectors: must have shape"):
        Curvature(network(), cross_entropy, [data()]).product(torch.ones(5))


def test_gauss_newton_wants_one_call_of_the_model() -> None:
    def twice(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        return (model(batch["x"]) * model(batch["x"])).mean()

    with pytest.raises(TypeError, match="once"):
        Curvature(network(), twice, [data()], kind="ggn").product(torch.ones(31))
