"""Sharpness, trace and spectrum of losses whose second derivatives are known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raycipe.framework.contracts import Loss, Skipped, Task, TensorSplit, Trained
from raycipe.framework.registry import make

VALUES = torch.tensor([4.0, 2.0, 1.0, 0.5, 0.0, -1.0], dtype=torch.float64)


class Quadratic(Task):
    """L(w) = w' H w / 2 with the eigenvalues above, whatever the batch."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        turn, _ = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64))
        self.matrix = turn @ torch.diag(VALUES) @ turn.T

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> Loss:
        w = model.get_parameter("weight").reshape(-1)
        return Loss(w @ self.matrix.to(w) @ w / 2, None)


def trained(optimizer: Any = "sgd", rows: Any = (), point: float = 1.0) -> Trained:
    model = nn.Linear(6, 1, bias=False)
    nn.init.constant_(model.weight, point)
    split = TensorSplit({"x": torch.zeros(3, 6)})
    return Trained(
        recipe={"optimizer": optimizer}, model=model.eval(), task=Quadratic(), splits={"train": split}, rows=rows
    )


def test_sharpness_is_the_largest_eigenvalue_and_the_edge_knows_the_optimizer() -> None:
    measure = make("measures/sharpness")
    found = measure.measure(trained({"type": "sgd", "lr": 0.25, "schedule": None})).values
    assert found["sharpness"] == pytest.approx(4.0, rel=1e-8) and found["threshold"] == 8.0
    assert found["edge"] == pytest.approx(0.5, rel=1e-8)
    momentum = {"type": "sgd", "lr": 0.5, "momentum": 0.9, "weight_decay": 0.1, "schedule": {"type": "cosine"}}
    found = measure.measure(trained(momentum, [{"train/lr": 0.5}, {"val/loss": 1.0}, {"train/lr": 0.25}])).values
    assert found["threshold"] == pytest.approx(2 * 1.9 / 0.25)  # the rate of the last row
    assert found["edge"] == pytest.approx(4.1 / (2 * 1.9 / 0.25))
    nesterov = {"type": "sgd", "lr": 0.25, "momentum": 0.5, "nesterov": True, "schedule": None}
    assert measure.measure(trained(nesterov)).values["threshold"] == pytest.approx(2 * 1.5 / 2 / 0.25)
    assert set(measure.measure(trained({"type": "adamw", "lr": 0.1, "schedule": None})).values) == {
        "sharpness", "residual", "lr",
    }  # fmt: skip
    assert "lr" not in measure.measure(trained({"type": "sgd", "lr": 0.1, "schedule": {"type": "cosine"}})).values


def test_nesterov_and_heavy_ball_diverge_just_beyond_their_thresholds() -> None:
    for nesterov in (False, True):
        section = {"type": "sgd", "lr": 0.3, "momentum": 0.8, "nesterov": nesterov, "schedule": None}
        threshold = make("measures/sharpness").measure(trained(section)).values["threshold"]
        for factor, grows in ((0.99, False), (1.01, True)):
            weight = torch.ones(1, dtype=torch.float64, requires_grad=True)
            optimizer = torch.optim.SGD([weight], lr=0.3, momentum=0.8, nesterov=nesterov)
            for _ in range(2000):
                weight.grad = factor * threshold * weight.detach()
                optimizer.step()
            assert (abs(weight.item()) > 1) == grows


def test_adaptive_sharpness_weighs_by_the_weights_and_sam_follows_the_gradient() -> None:
    given = trained(point=3.0)
    adaptive = make("measures/sharpness", kind="adaptive").measure(given).values["sharpness"]
    assert adaptive == pytest.approx(9 * 4.0, rel=1e-8)
    task: Any = given.task
    w = torch.full((6,), 3.0, dtype=torch.float64)
    g = task.matrix @ w
    moved = w + 0.1 * g / g.norm()
    wanted = float(moved @ task.matrix @ moved - w @ task.matrix @ w) / 2
    assert make("measures/sharpness", kind="sam", rho=0.1).measure(given).values["sharpness"] == pytest.approx(wanted)
    assert make("measures/sharpness", kind="sam").measure(trained(point=0.0)).values["sharpness"] == 0.0
    assert torch.equal(given.model.weight, torch.full((1, 6), 3.0))  # type: ignore[union-attr]


def test_a_largest_eigenvalue_that_is_not_found_is_not_reported() -> None:
    with pytest.raises(Skipped, match="not found in 2 steps"):
        make("measures/sharpness", max_steps=2).measure(trained())


@pytest.mark.parametrize("method", ["hutchinson", "hutch++", "exact"])
def test_trace(method: str) -> None:
    found = make("measures/hessian_trace", method=method, probes=3000, tolerance=0.02).measure(trained()).values
    assert abs(found["trace"] - 6.5) <= max(4 * found["standard_error"], 1e-10)
    assert found["per_parameter"] == pytest.approx(found["trace"] / 6)
    if method == "hutchinson":
        assert found["standard_error"] <= 0.02 * abs(found["trace"]) and found["probes"] < 3000
    if method == "exact":
        assert found["trace"] == pytest.approx(6.5, rel=1e-12) and found["probes"] == 6


@pytest.mark.parametrize("method", ["dense", "slq", "lanczos"])
def test_spectrum_by_every_method(method: str) -> None:
    measure = make("measures/hessian_spectrum", method=method, k=2, runs=8)
    found = measure.measure(trained())
    assert found.values["largest"] == pytest.approx(4.0, rel=1e-9)
    assert found.values["smallest"] == pytest.approx(-1.0, rel=1e-9)
    assert found.values["found"] == 6 and found.values["parameters"] == 6
    listed = {row["rank"]: row["value"] for row in found.tables["eigenvalues"]}
    assert list(listed) == [1, 2, 5, 6] and listed[2] == pytest.approx(2.0, rel=1e-9)
    if method == "dense":
        assert found.values["trace"] == pytest.approx(6.5, rel=1e-10)
        assert found.values["norm"] == pytest.approx(float(VALUES.norm()), rel=1e-10)
        assert found.values["negative"] == pytest.approx(1 / 6)
        rows = found.tables["density"]
        width = rows[1]["value"] - rows[0]["value"]
        assert sum(row["density"] for row in rows) * width == pytest.approx(1.0, rel=1e-3)


def test_slq_agrees_with_dense_on_a_network_and_shares_its_operator() -> None:
    from raycipe.framework.registry import make as build

    data = build("data/digits")
    splits = data.load(0)
    torch.manual_seed(0)
    given = Trained(
        recipe={},
        splits=splits,
        facts=data.facts,
        model=build("models/mlp", data.facts, hidden=[6], activation="tanh").eval(),
        task=build("tasks/classification", data.facts),
    )
    common = {"examples": 100, "k": 3}
    exact = build("measures/hessian_spectrum", method="dense", **common).measure(given).values
    close = build("measures/hessian_spectrum", method="slq", runs=30, steps=40, **common).measure(given).values
    assert len(given.cache) == 1
    assert close["largest"] == pytest.approx(exact["largest"], rel=1e-6)
    assert close["smallest"] == pytest.approx(exact["smallest"], rel=1e-3)
    assert close["trace"] == pytest.approx(exact["trace"], rel=0.15)
    assert close["norm"] == pytest.approx(exact["norm"], rel=0.15)
    assert build("measures/sharpness", examples=100).measure(given).values["sharpness"] == pytest.approx(
        exact["largest"], rel=1e-4
    )
    assert len(given.cache) == 1


def test_a_pattern_chooses_parameters_and_one_that_fits_none_is_told() -> None:
    given = trained()
    assert make("measures/hessian_trace", method="exact", parameters="wei*").measure(given).values["probes"] == 6
    with pytest.raises(Skipped, match=r"no trained parameter's name matches `head\.\*`; there are weight"):
        make("measures/hessian_trace", parameters="head.*").measure(given)
