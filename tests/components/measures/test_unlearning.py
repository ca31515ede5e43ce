"""The figures of a forgetful model: hand-made cases, and a whole one whose retrained model is the edited one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from raycipe.components.editors._case import Case
from raycipe.components.measures.unlearning import attack, confidence, distance, gap, known, score
from raycipe.framework.contracts import Skipped, Trained
from raycipe.framework.registry import make
from raycipe.framework.training.again import train_again


def normal(count: int, mean: float, seed: int) -> torch.Tensor:
    return mean + torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_an_attack_on_equal_distributions_knows_nothing() -> None:
    share, auc = attack(normal(2000, 0, 1), normal(1500, 0, 2), normal(1000, 0, 3), 0)
    assert abs(auc - 0.5) < 0.05
    assert 0.0 <= share <= 1.0
    shares = [attack(normal(2000, 0, s), normal(2000, 0, s + 50), normal(500, 0, s + 99), 0)[0] for s in range(12)]
    assert abs(sum(shares) / 12 - 0.5) < 0.15


def test_an_attack_tells_apart_what_differs() -> None:
    share, auc = attack(normal(500, 4, 1), normal(500, 0, 2), normal(500, 0, 3), 0)
    assert auc > 0.98 and share > 0.9
    assert attack(normal(500, 4, 1), normal(500, 0, 2), normal(500, 4, 3), 0)[0] < 0.1


def test_confidence_is_the_log_probability_of_the_true_class_cut_off() -> None:
    found = confidence(torch.tensor([[0.0, math.log(3.0)], [0.0, 60.0]], dtype=torch.float64), torch.tensor([1, 0]))
    torch.testing.assert_close(found, torch.tensor([math.log(0.75), -20.0], dtype=torch.float64))


def test_scores_and_gaps_by_hand() -> None:
    assert score(0.0, 1.0) == 1.0 and score(1.0, 1.0) == 0.0 and score(0.5, 1.0) == pytest.approx(2 / 3)
    names = ("retain_accuracy", "forget_accuracy", "test_accuracy", "mia")
    one = dict(zip(names, (1.0, 0.5, 0.9, 0.2), strict=True))
    other = dict(zip(names, (0.9, 0.7, 0.9, 0.3), strict=True))
    assert gap(one, other) == pytest.approx(0.1)
    model, twin = nn.Linear(2, 1), nn.Linear(2, 1)
    twin.load_state_dict({name: 2 * tensor for name, tensor in model.state_dict().items()})
    assert distance(model, twin) == pytest.approx(0.5) and distance(model, model) == 0


def trained() -> Trained:
    recipe = {
        "seed": 1,
        "data": {"type": "digits", "test": 0.5},
        "model": {"type": "mlp", "hidden": [8], "activation": "tanh"},
        "task": {"type": "classification"},
        "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9},
        "train": {"epochs": 3},
        "editor": {"type": "retrain", "forget": {"type": "one_class", "label": 3}},
    }
    data = make("data/digits", test=0.5)
    splits = data.load(1)
    model = train_again(recipe, splits, data.facts)
    return Trained(
        recipe=recipe,
        splits=splits,
        facts=data.facts,
        model=model,
        task=make("tasks/classification", num_classes=10),
        checkpoints=[(3, lambda: model)],
        seed=1,
    )


def test_a_retrained_model_has_no_gap_and_an_untouched_one_has() -> None:
    given = trained()
    state = torch.get_rng_state()
    untouched = make("measures/unlearning").measure(given).values
    assert torch.equal(state, torch.get_rng_state())
    assert untouched["avg_gap"] > 0.2 and untouched["original_avg_gap"] == untouched["avg_gap"]
    assert untouched["parameter_distance"] == 0 and untouched["relearn_steps"] == 0
    given.model, _ = make("editors/retrain", forget={"type": "one_class", "label": 3}).edit(given)
    values = make("measures/unlearning", relearn_steps=30).measure(given).values
    assert values["avg_gap"] == values["kl_to_retrain"] == values["retrain_parameter_distance"] == 0
    assert values["forget_accuracy"] == 0 and values["forget_test_accuracy"] == 0 and values["test_accuracy"] > 0.6
    assert values["relearn_steps"] > 0 and values["original_forget_accuracy"] > 0.6
    assert set(values) <= set(make("measures/unlearning").reports)


def test_a_class_is_left_out_of_the_test_accuracy() -> None:
    given = trained()
    case = Case.of(given, make("forget/one_class", label=3))
    assert given.model is not None
    found = known(case, given.model)
    split = given.splits["test"].tensors  # type: ignore[attr-defined]
    right = (given.model(split["x"]).argmax(dim=1) == split["y"]).double()
    assert found["test_accuracy"] == pytest.approx(float(right[split["y"] != 3].mean()))
    assert found["forget_test_accuracy"] == pytest.approx(float(right[split["y"] == 3].mean()))


def test_without_a_request_there_is_nothing_to_measure() -> None:
    given = trained()
    given.recipe = {name: value for name, value in given.recipe.items() if name != "editor"}
    with pytest.raises(Skipped, match="has no editor with a request"):
        make("measures/unlearning").measure(given)
