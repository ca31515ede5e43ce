"""The edit by a linear system: exact where the loss is quadratic, only the selected entries, signs, bad requests."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raycipe.components.editors._case import Case
from raycipe.components.editors._objective import Objective, flat
from raycipe.framework.contracts import Measured, TensorSplit, Trained
from raycipe.framework.errors import RecipeError, RunError
from raycipe.framework.registry import make

DECAY = 0.05


def line(decay: float = DECAY, count: int = 30) -> tuple[Trained, Tensor, Tensor]:
    """A linear regression with squared loss, trained to its minimum in closed form."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64)
    y = y + torch.randn(count, 1, generator=generator, dtype=torch.float64)
    model = nn.Linear(3, 1).double()
    fit(model, x, y, decay)
    recipe = {"optimizer": {"type": "sgd", "weight_decay": decay}}
    splits = {"train": TensorSplit({"x": x, "y": y})}
    trained = Trained(
        recipe=recipe, splits=splits, facts={"num_outputs": 1}, model=model, task=make("tasks/regression")
    )
    return trained, x, y


def fit(model: nn.Linear, x: Tensor, y: Tensor, decay: float) -> None:
    """The minimum of mean squares + (decay/2)|w|², bias included."""
    rows = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    gram = 2 * rows.T @ rows / len(x) + decay * torch.eye(4, dtype=x.dtype)
    found = torch.linalg.solve(gram, 2 * rows.T @ y / len(x)).flatten()
    with torch.no_grad():
        model.weight.copy_(found[:3].unsqueeze(0))
        model.bias.copy_(found[3:])


def weights(model: nn.Module) -> Tensor:
    return flat(list(model.parameters()))


def edit(trained: Trained, ids: list[int], **arguments: Any) -> tuple[nn.Module, Measured]:
    settings: dict[str, Any] = {"subspace": "all", "ihvp": "direct", "strength": 1.0, "dtype": "float64"}
    return make("editors/gif", forget={"type": "indices", "ids": ids}, **{**settings, **arguments}).edit(trained)


@pytest.mark.parametrize("rhs", ["newton", "influence"])
@pytest.mark.parametrize("decay", [0.0, DECAY])
@pytest.mark.parametrize("ids", [[4], [0, 7, 21]])
def test_removal_from_a_quadratic_loss_is_the_exact_refit(rhs: str, decay: float, ids: list[int]) -> None:
    trained, x, y = line(decay)
    edited, found = edit(trained, ids, rhs=rhs)
    stays = [i for i in range(len(x)) if i not in ids]
    wanted = nn.Linear(3, 1).double()
    fit(wanted, x[stays], y[stays], decay)
    torch.testing.assert_close(weights(edited), weights(wanted), rtol=0, atol=1e-8)
    assert found.values["after/forget/loss"] > found.values["before/forget/loss"]
    assert trained.model is not None
    before, after = (0.5 * decay * float(weights(model).square().sum()) for model in (trained.model, edited))
    assert found.values["after/retain/loss"] + after <= found.values["before/retain/loss"] + before + 1e-12
    assert found.values["relative_residual"] < 1e-10


@pytest.mark.parametrize("rhs", ["newton", "influence"])
@pytest.mark.parametrize("weight", [0.0, 0.4, 3.0])
def test_reweighting_is_the_derivative_in_the_weight(rhs: str, weight: float) -> None:
    trained, x, y = line()
    edited, _ = edit(trained, [4], rhs=rhs, operation="reweight", weight=weight)
    model = trained.model
    assert isinstance(model, nn.Linear)
    rows = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    hessian = 2 * rows.T @ rows / len(x) + DECAY * torch.eye(4, dtype=x.dtype)
    residual = rows[4] @ weights(model) - y[4, 0]
    wanted = weights(model) + torch.linalg.solve(hessian, (1 - weight) * 2 * residual * rows[4] / len(x))
    torch.testing.assert_close(weights(edited), wanted, rtol=0, atol=1e-8)


def classes(seed: int = 0) -> Trained:
    """Three noisy blobs and a small smooth network, trained a little; label 2 of the first examples is wrong."""
    generator = torch.Generator().manual_seed(seed)
    clean = torch.arange(90) % 3
    x = torch.randn(90, 4, generator=generator) + 2 * nn.functional.one_hot(clean, 4).float()
    y = clean.clone()
    y[:6] = (clean[:6] + 1) % 3
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, weight_decay=1e-3)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[:60]), y[:60]).backward()
        optimizer.step()
    tensors = {"x": x, "y": y, "clean_y": clean}
    splits = {
        "train": TensorSplit({name: tensor[:60] for name, tensor in tensors.items()}),
        "val": TensorSplit({name: tensor[60:75] for name, tensor in tensors.items()}),
        "test": TensorSplit({name: tensor[75:] for name, tensor in tensors.items()}),
    }
    return Trained(
        recipe={"optimizer": {"type": "sgd", "weight_decay": 1e-3}},
        splits=splits,
        facts={"num_classes": 3, "num_outputs": 3},
        model=model.eval(),
        task=make("tasks/classification", num_classes=3),
    )


OF_CLASS = {"type": "one_class", "label": 1}


@pytest.mark.parametrize("rows", ["selected", "all", "project"])
def test_exactly_the_selected_entries_change(rows: str) -> None:
    trained = classes()
    subspace = {"type": "topk", "count": 9}
    editor = make("editors/gif", forget=OF_CLASS, subspace=subspace, rows=rows, strength=0.7)
    assert trained.model is not None
    edited, found = editor.edit(trained)
    changed = (weights(edited) != weights(trained.model)).nonzero().flatten()
    assert len(changed) == 9 == found.values["selected"]
    again, _ = editor.edit(trained)
    assert torch.equal(weights(again), weights(edited))
    assert sum(row["selected"] for row in found.tables["parameters"]) == 9


def test_relabelling_moves_towards_the_minimum_with_the_right_labels() -> None:
    trained = classes()
    assert trained.model is not None
    forget = {"type": "label_noise"}
    arguments: dict[str, Any] = {"forget": forget, "subspace": "all", "operation": "relabel", "strength": 1.0}
    edited, _ = make("editors/gif", ihvp={"type": "p_lissa", "max_hvp": 60}, **arguments).edit(trained)
    train = trained.splits["train"]
    assert isinstance(train, TensorSplit)
    wrong = train.tensors["y"] != train.tensors["clean_y"]
    x, clean = train.tensors["x"][wrong], train.tensors["clean_y"][wrong]
    before, after = (nn.functional.cross_entropy(model(x), clean) for model in (trained.model, edited))
    assert after.item() < before.item()


def test_relabelling_reads_labels_from_a_file_and_names_what_is_wrong_there(tmp_path: Any) -> None:
    trained, file = classes(), tmp_path / "labels.txt"
    file.write_text("# id label\n3 2\n5, 1\n")
    arguments: dict[str, Any] = {"operation": "relabel", "labels": str(file), "strength": 1.0, "subspace": "all"}
    one = make("editors/gif", forget={"type": "indices", "ids": [3, 5]}, **arguments)
    assert one.edit(trained)[1].values["selected"] == 51
    with pytest.raises(RunError, match="no new label for example 6"):
        make("editors/gif", forget={"type": "indices", "ids": [3, 6]}, **arguments).edit(trained)
    file.write_text("3 2\n5 9\n")
    with pytest.raises(RunError, match="example 5 is 9: classes are 0 to 2"):
        one.edit(trained)
    file.write_text("3 2\n5 one\n")
    with pytest.raises(RunError, match="labels.txt:2: `5 one` is no id and label"):
        one.edit(trained)


def test_the_strength_is_the_smallest_that_forgets_enough() -> None:
    trained = classes()
    search = {"target": 0.2, "tolerance": 0.0, "refine": 6}
    _, found = make("editors/gif", forget=OF_CLASS, subspace="all", strength=search).edit(trained)
    rows = found.tables["strength"]
    chosen = found.values["strength"]
    assert found.values["reached"] == 1.0 and found.values["after/forget/accuracy"] <= 0.2
    weaker = [row for row in rows if row["strength"] < chosen]
    assert weaker and all(row["forget_accuracy"] > 0.2 for row in weaker)
    assert chosen - max(row["strength"] for row in weaker) <= 16 / 2**6


def test_a_target_that_is_not_reached_is_told() -> None:
    search = {"target": 0.0, "tolerance": 0.0, "grid": [1e-4, 2e-4]}
    _, found = make("editors/gif", forget=OF_CLASS, strength=search).edit(classes())
    assert found.values["reached"] == 0.0
    assert found.values["strength"] == 1e-4 and found.values["after/forget/accuracy"] > 0.5


def test_the_validation_target_is_the_accuracy_on_held_out_examples_of_the_class() -> None:
    trained = classes()
    assert trained.model is not None
    _, found = make("editors/gif", forget=OF_CLASS, strength={"target": "validation"}).edit(trained)
    val = trained.splits["val"]
    assert isinstance(val, TensorSplit)
    own = val.tensors["y"] == 1
    predicted = trained.model(val.tensors["x"][own]).argmax(dim=1)
    assert found.values["target"] == pytest.approx(float((predicted == 1).double().mean()))


def test_steps_take_the_curvature_where_they_begin() -> None:
    """Newton's steps on a quadratic loss all go the same way; each part of the way leaves the rest of the gradient."""
    trained, x, y = line()
    ids = [0, 7, 21]
    edited, _ = edit(trained, ids, steps=3, rhs="newton")
    stays = [i for i in range(len(x)) if i not in ids]
    wanted = nn.Linear(3, 1).double()
    fit(wanted, x[stays], y[stays], DECAY)
    assert trained.model is not None
    start, end = weights(trained.model), weights(wanted)
    torch.testing.assert_close(weights(edited), end + (2 / 3) ** 3 * (start - end), rtol=0, atol=1e-8)


def test_a_request_without_a_gradient_changes_nothing() -> None:
    trained, _, _ = line(0.0)
    edited, found = edit(trained, [4], operation="reweight", weight=1.0)
    assert trained.model is not None and torch.equal(weights(edited), weights(trained.model))
    assert "asks for no change" in found.text["notes"] and found.values["step_norm"] == 0


def test_a_model_without_accuracy_takes_a_number_as_strength() -> None:
    trained, _, _ = line()
    with pytest.raises(RunError, match="reports no accuracy .* so no strength can be searched"):
        edit(trained, [4], strength={"target": 0.0})


def test_a_gradient_that_is_not_finite_is_told_before_anything_is_solved() -> None:
    trained = classes()
    assert trained.model is not None
    broken = copy.deepcopy(trained.model)
    with torch.no_grad():
        next(broken.parameters())[0, 0] = math.nan
    trained.model = broken
    with pytest.raises(RunError, match="gradient at the trained weights is not finite"):
        make("editors/gif", forget=OF_CLASS, subspace="all").edit(trained)


def test_kinks_and_decoupled_decay_are_told() -> None:
    trained = classes()
    trained.model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).eval()
    trained.recipe = {"optimizer": {"type": "adamw", "weight_decay": 0.01}}
    _, found = make("editors/gif", forget=OF_CLASS, strength=1.0).edit(trained)
    assert "ReLU has no curvature at its kinks" in found.text["notes"]
    assert "adamw decays weights beside the loss" in found.text["notes"]


def test_damping_is_no_argument_of_p_lissa() -> None:
    with pytest.raises((TypeError, RecipeError), match="damping"):
        make("ihvp/p_lissa", damping=0.1)


def test_products_of_the_restricted_system_are_those_of_the_whole_curvature() -> None:
    trained = classes()
    case = Case.of(trained, make("forget/one_class", label=1))
    objective = Objective(case, case.model, case.stays, dtype=torch.float64)
    whole = objective.system(torch.arange(51)).matrix()
    torch.testing.assert_close(whole, whole.T)
    index = torch.tensor([3, 20, 31, 50])
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, generator=generator, dtype=torch.float64) for n in (4, 51))
    square, tall = objective.system(index), objective.system(index, "all")
    torch.testing.assert_close(square.product(x), whole[index][:, index] @ x)
    torch.testing.assert_close(square.matrix(), whole[index][:, index])
    torch.testing.assert_close(tall.product(x), whole[:, index] @ x)
    torch.testing.assert_close(tall.transposed(y), whole[index] @ y)
    torch.testing.assert_close(tall.matrix(), whole[:, index])
    assert (square.products, tall.products) == (1 + 4, 2 + 51)
    draws = torch.stack([square.sample(8, generator).product(x) for _ in range(400)])
    error = (draws.mean(dim=0) - square.product(x)).norm() / draws.std(dim=0).norm()
    assert float(error) < 0.15
