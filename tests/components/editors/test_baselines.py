"""The formulas of the baselines by hand, and what each does to a small trained network."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from raycipe.components.editors._case import Case, Draws
from raycipe.components.editors._training import divergence, wrong_labels
from raycipe.components.editors.fisher_forget import deviation
from raycipe.components.editors.salun import saliency
from raycipe.components.editors.ssd import dampened
from raycipe.framework.contracts import Measured, TensorSplit, Trained
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make

OF_CLASS = {"type": "one_class", "label": 1}


def trained() -> Trained:
    """Three blobs and a network that tells them apart."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(90) % 3
    x = torch.randn(90, 4, generator=generator) + 3 * nn.functional.one_hot(y, 4).float()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[:60]), y[:60]).backward()
        optimizer.step()
    splits = {
        "train": TensorSplit({"x": x[:60], "y": y[:60]}),
        "test": TensorSplit({"x": x[60:], "y": y[60:]}),
    }
    task = make("tasks/classification", num_classes=3)
    return Trained(recipe={}, splits=splits, facts={"num_classes": 3}, model=model.eval(), task=task)


def edit(type_: str, **arguments: Any) -> tuple[nn.Module, Measured, Trained]:
    given = trained()
    torch.manual_seed(1)
    return *make(f"editors/{type_}", forget=OF_CLASS, **arguments).edit(given), given  # type: ignore[return-value]


def test_dampening_by_hand() -> None:
    of_all = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    of_forget = torch.tensor([2.0, 4.0, 20.0, 0.0], dtype=torch.float64)
    assert dampened(of_all, of_forget, 3.0, 1.0).tolist() == [1.0, 0.25, 0.05, 1.0]
    assert dampened(of_all, of_forget, 3.0, 8.0).tolist() == [1.0, 1.0, 0.4, 1.0]


def test_noise_is_large_where_there_is_no_curvature_and_bounded() -> None:
    found = deviation(torch.tensor([0.99, 0.0, 3.99], dtype=torch.float64), 4e-2, 1e-2, 1.0)
    torch.testing.assert_close(found, torch.tensor([0.2, 1.0, 0.1], dtype=torch.float64))


def test_the_salient_share_is_rounded_up_and_ties_go_to_the_lower_index() -> None:
    gradient = torch.tensor([0.1, -3.0, 2.0, 2.0, 0.0])
    assert saliency(gradient, 0.5).tolist() == [False, True, True, True, False]
    assert saliency(gradient, 0.4).tolist() == [False, True, True, False, False]
    assert bool(saliency(gradient, 1.0).all())


def test_divergence_is_that_of_the_teacher_from_the_student() -> None:
    student = torch.tensor([[0.0, 0.0]], dtype=torch.float64)
    teacher = torch.tensor([[0.75, 0.25]], dtype=torch.float64).log()
    wanted = 0.75 * torch.tensor(1.5).log() + 0.25 * torch.tensor(0.5).log()
    assert float(divergence(student, teacher)) == pytest.approx(float(wanted), rel=1e-6)
    assert float(divergence(teacher, teacher)) == 0


def test_wrong_labels_are_never_the_true_ones_and_draws_pass_over_everything() -> None:
    case = Case.of(trained(), make("forget/one_class", label=1))
    wrong = wrong_labels(case)
    assert isinstance(wrong, TensorSplit) and set(wrong.tensors["y"].tolist()) == {0, 2}
    draws = Draws(case, case.goes, 5, "some")
    ids = torch.cat([draws.next()["id"] for _ in range(4)])
    assert sorted(ids.tolist()) == list(range(20))


@pytest.mark.parametrize(
    ("type_", "arguments"),
    [
        ("gradient_ascent", {"lr": 0.1, "steps": 300, "stop_at_forget_accuracy": 0.05}),
        ("random_label", {"steps": 150, "lr": 0.3}),
        ("salun", {"steps": 150, "lr": 0.3}),
    ],
)
def test_each_forgets_the_class_that_was_known(type_: str, arguments: dict[str, Any]) -> None:
    _, found, _ = edit(type_, **arguments)
    assert found.values["before/forget/accuracy"] > 0.9
    assert found.values["after/forget/accuracy"] < 0.6, found.values
    assert {"after/retain_test/accuracy", "after/forget_test/accuracy", "seconds"} <= set(found.values)


@pytest.mark.parametrize(
    ("type_", "arguments"),
    [
        ("ssd", {"alpha": 1.2}),
        ("scrub", {"lr": 0.1, "max_epochs": 20, "min_epochs": 20, "clip": None}),
        ("fisher_forget", {"alpha": 1e-1}),
    ],
)
def test_each_raises_the_loss_of_what_goes_more_than_of_what_stays(type_: str, arguments: dict[str, Any]) -> None:
    found = edit(type_, **arguments)[1].values
    raised = {part: found[f"after/{part}/loss"] - found[f"before/{part}/loss"] for part in ("forget", "retain")}
    assert raised["forget"] > (0 if type_ == "scrub" else 1e-3), raised  # scrub starts where its gradient is zero
    assert type_ == "fisher_forget" or raised["forget"] > raised["retain"], raised  # its noise aims at nothing


def test_fine_tuning_lowers_the_loss_of_what_stays() -> None:
    _, found, _ = edit("fine_tune", steps=50)
    assert found.values["after/retain/loss"] < found.values["before/retain/loss"] and found.values["steps"] == 50


def test_ascent_stops_where_enough_is_forgotten() -> None:
    _, found, _ = edit("gradient_ascent", lr=0.1, steps=300, stop_at_forget_accuracy=0.5)
    assert found.values["after/forget/accuracy"] <= 0.5 and 0 < found.values["steps"] < 300


def test_salun_moves_only_the_salient_weights() -> None:
    edited, found, given = edit("salun", steps=5, mask_ratio=0.25)
    assert given.model is not None
    pairs = zip(edited.parameters(), given.model.parameters(), strict=True)
    changed = sum(int((new != old).sum()) for new, old in pairs)
    assert 0 < changed <= 17 and found.values["selected_share"] == pytest.approx(17 / 67)


def test_weights_that_run_away_are_told() -> None:
    with pytest.raises(RunError, match="no longer finite"):
        edit("random_label", lr=1e38, momentum=0.9, steps=40)


def test_scrub_passes_at_least_as_often_over_what_stays() -> None:
    with pytest.raises(ValueError, match="min_epochs: must be at least max_epochs, 5"):
        make("editors/scrub", forget=OF_CLASS, max_epochs=5, min_epochs=2)
