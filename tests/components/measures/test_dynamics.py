"""Exponents and dimensions of systems that are known, and of quadratic losses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from raycipe.components.measures import _dynamics as dynamics
from raycipe.components.measures import ph_dim, sharpness_dimension
from raycipe.framework.contracts import Loss, Skipped, Task, TensorSplit, Trained
from raycipe.framework.registry import make


def along(step: Any, state: Tensor) -> Iterator[Any]:
    """The derivatives of a plain map, from its matrix at each point."""
    while True:
        state, matrix = step(state)
        yield lambda rows, matrix=matrix: rows @ matrix.T


def henon(state: Tensor) -> tuple[Tensor, Tensor]:
    x, y = state.tolist()
    moved = torch.tensor([1 - 1.4 * x * x + y, 0.3 * x], dtype=torch.float64)
    return moved, torch.tensor([[-2.8 * x, 1.0], [0.3, 0.0]], dtype=torch.float64)


def logistic(state: Tensor) -> tuple[Tensor, Tensor]:
    return 4 * state * (1 - state), (4 - 8 * state)[None]


def cat(state: Tensor) -> tuple[Tensor, Tensor]:
    matrix = torch.tensor([[2.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    return (matrix @ state) % 1, matrix


def exponents(step: Any, state: list[float], steps: int, qr_every: int = 1) -> Tensor:
    start = torch.tensor(state, dtype=torch.float64)
    frame = torch.eye(len(state), dtype=torch.float64)
    return dynamics.benettin(along(step, start), frame, steps, 100, qr_every).values


def test_lyapunov_exponents_of_known_systems() -> None:
    found = exponents(henon, [0.1, 0.1], 6000)
    assert found.tolist() == pytest.approx([0.42, -1.624], abs=0.015)
    assert float(found.sum()) == pytest.approx(math.log(0.3), abs=1e-9)
    assert dynamics.kaplan_yorke(found)[0] == pytest.approx(1.258, abs=0.01)
    assert float(exponents(logistic, [0.3], 8000)[0]) == pytest.approx(math.log(2), abs=5e-3)
    cats = exponents(cat, [0.1, 0.2], 400, qr_every=3)
    assert cats.tolist() == pytest.approx([0.962424, -0.962424], abs=1e-3)
    assert dynamics.kaplan_yorke(torch.tensor([1.0, -1.0]))[0] == 2.0


def test_sharpness_dimensions_of_known_spectra() -> None:
    def of(curvatures: list[float], lr: float) -> tuple[Tensor, float]:
        z = dynamics.log_singular_values(torch.tensor(curvatures).double(), lr, 0.0, 0.0).sort(descending=True).values
        return z, dynamics.kaplan_yorke(z)[0]

    z, dimension = of([2.5, 1.5, 0.5, 0.2], 1.0)
    assert z.tolist() == pytest.approx([0.405465, -0.223144, -0.693147, -0.693147], abs=1e-6)
    assert dimension == pytest.approx(2.2630344058, abs=1e-8)
    z, dimension = of([3.0, 1.0, 0.1, -0.05], 0.9)
    assert z.tolist() == pytest.approx([0.530628, 0.044017, -0.094311, -2.302585], abs=1e-6)
    assert dimension == pytest.approx(3.2086066, abs=1e-6)
    assert of([0.5, 1.0], 1.0)[1] == 0 and of([-0.5, -1.0], 1.0)[1] == 2
    masses = torch.tensor([2.0, 3.0])
    plain = dynamics.kaplan_yorke(torch.tensor([0.3, 0.3, -0.4, -0.4, -0.4]))[0]
    assert dynamics.kaplan_yorke(torch.tensor([0.3, -0.4]), masses)[0] == pytest.approx(plain)


def test_heavy_ball_singular_values_are_those_of_the_block() -> None:
    h, lr, decay, beta = torch.tensor([3.0, -0.2, 0.0]).double(), 0.4, 0.1, 0.9
    found = dynamics.log_singular_values(h, lr, decay, beta).reshape(2, 3)
    for i, value in enumerate(h.tolist()):
        block = torch.tensor([[1 + beta - lr * (value + decay), -beta], [1.0, 0.0]], dtype=torch.float64)
        wanted = torch.linalg.svdvals(block).log()
        torch.testing.assert_close(found[:, i], wanted, rtol=1e-10, atol=1e-10)


VALUES = torch.tensor([2.5, 1.5, 0.5, 0.2], dtype=torch.float64)


class Quadratic(Task):
    """w' H w / 2, H scaled by the batch's mean of x."""

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> Loss:
        w = model.get_parameter("weight").reshape(-1)
        return Loss(batch["x"].mean() * (VALUES.to(w) * w * w).sum() / 2, None)


def trained(x: Tensor | None = None, optimizer: Any = None, **train: Any) -> Trained:
    model = nn.Linear(4, 1, bias=False)
    nn.init.constant_(model.weight, 0.1)
    split = TensorSplit({"x": torch.ones(8, 1) if x is None else x})
    section = optimizer or {"type": "sgd", "lr": 1.0, "schedule": None}
    return Trained(
        recipe={"optimizer": section, "train": train}, model=model.eval(), task=Quadratic(), splits={"train": split}
    )


@pytest.mark.parametrize("method", ["dense", "slq"])
def test_sharpness_dimension_of_a_quadratic_loss(method: str) -> None:
    found = make("measures/sharpness_dimension", method=method, probes=64).measure(trained(batch_size=8)).values
    assert found["dimension"] == pytest.approx(2.2630344058, abs=1e-6 if method == "dense" else 0.1)
    assert found["lambda_1"] == pytest.approx(0.405465, abs=1e-5) and found["lr"] == 1.0
    assert found["expanding"] == 1 and found["parameters"] == 4
    wanted = 2 * math.sqrt(4 * found["dimension"] * math.log(8**0.5) / 8)
    assert found["bound_term"] == pytest.approx(wanted)


def test_exponents_are_sorted_in_each_batch_and_then_averaged() -> None:
    x = torch.tensor([[1.0], [1.0], [2.0], [2.0]])
    found = make("measures/sharpness_dimension", batch_size=1, batches=4, map="gd").measure(trained(x))
    each = [(1 - scale * VALUES).abs().add(1e-12).log().sort(descending=True).values for scale in (1, 1, 2, 2)]
    wanted = torch.stack(each).mean(dim=0)
    rows = found.tables["partial_sums"]
    assert [row["exponent"] for row in rows] == pytest.approx(wanted.tolist(), abs=1e-6)


def test_weight_decay_and_momentum_are_the_recipe_s() -> None:
    section = {"type": "sgd", "lr": 0.5, "momentum": 0.9, "weight_decay": 0.2, "schedule": None}
    given = trained(optimizer=section, batch_size=8)
    plain = make("measures/sharpness_dimension").measure(given).values
    assert plain["lambda_1"] == pytest.approx(math.log(1 - 0.5 * 0.4), abs=1e-6) and plain["dimension"] == 0
    ball = make("measures/sharpness_dimension", map="heavy_ball").measure(given).values
    blocks = [torch.tensor([[1.9 - 0.5 * (h + 0.2), -0.9], [1.0, 0.0]]).double() for h in VALUES.tolist()]
    z = torch.cat([torch.linalg.svdvals(block).log() for block in blocks]).sort(descending=True).values
    assert ball["dimension"] == pytest.approx(dynamics.kaplan_yorke(z)[0], abs=1e-6)


def test_other_points_of_the_path_can_only_raise_exponents() -> None:
    section = {"type": "sgd", "lr": 0.1, "schedule": None}
    measure = {"batches": 2, "batch_size": 2}
    x = torch.linspace(0.5, 4, 8)[:, None]
    one = make("measures/sharpness_dimension", **measure).measure(trained(x, section)).values
    more = make("measures/sharpness_dimension", attractor_points=3, attractor_gap=2, **measure)
    assert more.measure(trained(x, section)).values["lambda_1"] == pytest.approx(one["lambda_1"])  # H is constant here


def test_lyapunov_exponents_of_descent_are_the_logs_of_its_factors() -> None:
    found = make("measures/lyapunov_spectrum", k=4, steps=20, burn_in=200, lr=0.3, batch_size=8).measure(trained())
    wanted = (1 - 0.3 * VALUES).abs().log().sort(descending=True).values
    assert [row["exponent"] for row in found.tables["exponents"]] == pytest.approx(wanted.tolist(), abs=1e-4)
    section = {"type": "sgd", "lr": 0.3, "momentum": 0.5, "weight_decay": 0.1, "schedule": None}
    ball = make("measures/lyapunov_spectrum", k=8, steps=150, burn_in=50, batch_size=8).measure(
        trained(optimizer=section)
    )
    roots = []
    for h in (VALUES + 0.1).tolist():
        block = torch.tensor([[1 - 0.3 * h, -0.3 * 0.5], [h, 0.5]], dtype=torch.float64)
        roots += torch.linalg.eigvals(block).abs().log().tolist()
    assert ball.values["sum"] == pytest.approx(4 * math.log(0.5), abs=1e-6)
    assert ball.values["largest"] == pytest.approx(max(roots), abs=0.02)
    assert ball.values["dimension"] == 0 and ball.values["positive"] == 0


def test_descent_is_torch_s_own_sgd() -> None:
    section = {"type": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "schedule": None}
    given = trained(torch.linspace(0.5, 2, 8)[:, None], section, batch_size=4)
    path = dynamics.Descent(given, dynamics.map_of(given, None, True), None, 0)
    assert given.model is not None and given.task is not None
    weight = nn.Linear(4, 1, bias=False, dtype=torch.float64)
    nn.init.constant_(weight.weight, 0.1)
    weight.weight.data = given.model.get_parameter("weight").detach().double()
    optimizer = torch.optim.SGD(weight.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    batches = dynamics.minibatches(given, None, 0, "descent")
    for _ in range(5):
        path.step()
        optimizer.zero_grad()
        batch = next(batches)
        given.task.loss(weight, {name: tensor.double() for name, tensor in batch.items()}).value.backward()
        optimizer.step()
    torch.testing.assert_close(path.point, weight.weight.detach().reshape(-1), rtol=1e-10, atol=1e-12)


def test_quadrature_agrees_with_the_dense_dimension_on_a_network() -> None:
    data = make("data/digits")
    splits = data.load(0)
    torch.manual_seed(0)
    given = Trained(
        recipe={"optimizer": {"type": "sgd", "lr": 0.5, "schedule": None}, "train": {"batch_size": 50}},
        splits=splits,
        facts=data.facts,
        model=make("models/mlp", data.facts, hidden=[4], activation="tanh").eval(),
        task=make("tasks/classification", data.facts),
    )
    dense = make("measures/sharpness_dimension", method="dense", batches=3).measure(given).values
    close = make("measures/sharpness_dimension", method="slq", batches=3, steps=60).measure(given).values
    assert abs(dense["dimension"] - close["dimension"]) <= 0.015 * dense["parameters"]


@pytest.mark.parametrize(("d", "wanted", "tolerance"), [(1, 1.007, 0.08), (2, 1.96, 0.15), (3, 2.82, 0.3)])
def test_tree_dimension_of_cubes(d: int, wanted: float, tolerance: float) -> None:
    points = np.random.default_rng(0).uniform(size=(800, d))
    assert ph_dim.dimension(points, [100, 200, 400, 800]) == pytest.approx(wanted, abs=tolerance)


def test_tree_lengths_are_scipy_s() -> None:
    from scipy.sparse.csgraph import minimum_spanning_tree
    from scipy.spatial.distance import cdist

    points = np.random.default_rng(1).normal(size=(40, 3))
    wanted = minimum_spanning_tree(cdist(points, points)).data
    np.testing.assert_allclose(np.sort(ph_dim.tree_lengths(points)), np.sort(wanted), rtol=1e-12)


def test_quantiles_have_equal_mass() -> None:
    values, weights = torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0.25, 0.5, 0.25])
    assert sharpness_dimension.quantiles(values, weights, 4).tolist() == [1.0, 1.0, 2.0, 3.0]


def test_what_has_no_map_of_descent_is_told() -> None:
    adam = trained(optimizer={"type": "adamw", "lr": 0.1, "schedule": None})
    with pytest.raises(Skipped, match="the map of adamw is not that of gradient descent"):
        make("measures/sharpness_dimension").measure(adam)
    assert make("measures/sharpness_dimension", lr=0.1).measure(adam).values["lr"] == 0.1
    cosine = trained(optimizer={"type": "sgd", "lr": 0.1, "schedule": {"type": "cosine"}})
    with pytest.raises(Skipped, match="rate at these weights is not known"):
        make("measures/lyapunov_spectrum", k=2).measure(cosine)
    with pytest.raises(Skipped, match="4 exponents, fewer than k = 9"):
        make("measures/lyapunov_spectrum", k=9).measure(trained())
    with pytest.raises(Skipped, match="diverges"):
        make("measures/lyapunov_spectrum", k=2, lr=1e6, steps=200).measure(trained())
