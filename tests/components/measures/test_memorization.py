"""Memorization scores against exact ones, models trained side by side against models trained alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from raycipe.components.measures import feldman_memorization as feldman
from raycipe.components.measures._subsets import Retraining
from raycipe.components.measures.memorization_correlation import simple_scores
from raycipe.framework.contracts import Skipped, TensorSplit, Trained
from raycipe.framework.registry import make


def nearest_hits(places: np.ndarray, labels: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Whether the nearest chosen point has each point's label."""
    gaps = np.abs(places[:, None] - places[None, chosen])
    return (labels[chosen][gaps.argmin(axis=1)] == labels).astype(float)


def test_scores_of_a_nearest_neighbour_rule_are_the_exact_ones() -> None:
    places = np.array([0.0, 1.0, 2.1, 3.3, 10.0, 11.2, 12.5, 13.9])
    labels = np.array([0, 0, 1, 0, 1, 1, 0, 1])
    subsets = [np.array(chosen) for chosen in itertools.combinations(range(8), 4)]
    seen = np.array([np.isin(np.arange(8), chosen) for chosen in subsets])
    hits = np.array([nearest_hits(places, labels, chosen) for chosen in subsets])
    wanted = np.array([hits[seen[:, i], i].mean() - hits[~seen[:, i], i].mean() for i in range(8)])
    assert (wanted > 0.1).any() and (hits[seen] == 1).all()

    def blocks() -> Any:
        for start in range(0, 400, 100):
            chosen = [feldman.subset(0, number, 8, 4) for number in range(start, start + 100)]
            yield (
                np.array([np.isin(np.arange(8), each) for each in chosen]),
                np.array([nearest_hits(places, labels, each) for each in chosen]),
            )

    found = feldman.estimate(blocks(), 8)
    assert (np.abs(found.memorization - wanted) <= 4 * found.error + 1e-12).all()
    assert found.reliability > 0.8
    always = feldman.estimate([(seen, np.ones_like(hits))], 8)
    assert (always.memorization == 0).all() and np.isnan(always.reliability)
    few = feldman.estimate([(seen[:6], hits[:6])], 8)
    assert np.isnan(few.memorization).any()


def test_a_subset_depends_on_its_number_alone() -> None:
    assert (feldman.subset(3, 7, 20, 9) == feldman.subset(3, 7, 20, 9)).all()
    assert (
        len(feldman.subset(3, 7, 20, 9)) == 9 and not (feldman.subset(3, 7, 20, 9) == feldman.subset(3, 8, 20, 9)).all()
    )


def trained(**changes: Any) -> Trained:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 4, generator=generator), torch.arange(40) % 2
    x[:, 0] += 4 * y
    shown = y.clone()
    shown[:4] = 1 - y[:4]
    recipe: dict[str, Any] = {
        "model": {"type": "mlp", "hidden": [16]},
        "task": "classification",
        "optimizer": {"type": "adam", "lr": 0.05},
        "train": {"epochs": 60, "batch_size": 28},
    }
    facts = {"num_classes": 2, "num_features": 4, "num_outputs": 2, "input_shape": [4]}
    split = TensorSplit({"x": x, "y": shown, "clean_y": y})
    return Trained(
        recipe={**recipe, **changes}, splits={"train": split}, facts=facts, task=make("tasks/classification", facts)
    )


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_models_side_by_side_are_models_trained_alone(optimizer: str) -> None:
    schedule = {"type": "cosine"}
    given = trained(optimizer={"type": optimizer, "lr": 0.05, "schedule": schedule})
    training = Retraining.of(given, 20, 12, 5, 0)
    subsets = torch.stack([torch.arange(20), torch.arange(20, 40), torch.arange(0, 40, 2)])
    together = training.outputs([0, 1, 2], subsets, training.examples["x"])
    alone = torch.cat([training.outputs([k], subsets[k : k + 1], training.examples["x"]) for k in range(3)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    model = training.model(1)
    whole = Retraining.of(given, 20, 12, 20, 0)  # full batches: the order of examples does not matter
    plain = (
        torch.optim.Adam(model.parameters(), 0.05) if optimizer == "adam" else torch.optim.SGD(model.parameters(), 0.05)
    )
    cosine = make("schedules/cosine")
    for step in range(12):
        plain.param_groups[0]["lr"] = 0.05 * cosine.factor(step, 12)
        plain.zero_grad()
        torch.nn.functional.cross_entropy(model(whole.examples["x"][20:]), whole.examples["y"][20:]).backward()
        plain.step()
    torch.testing.assert_close(
        whole.outputs([1], subsets[1:2], whole.examples["x"])[0], model(whole.examples["x"]), rtol=1e-3, atol=1e-4
    )


def test_wrong_labels_are_memorized_and_found() -> None:
    given = trained()
    memorization = make("measures/feldman_memorization", models=80, models_at_once=30)
    found = memorization.measure(given)
    rows = [row["memorization"] for row in found.tables["examples"]]
    assert np.mean(rows[:4]) > 0.6 and np.nanmean(rows[4:]) < 0.35
    assert found.values["flipped_auc"] > 0.95 and found.values["undefined"] == 0
    correlation = make("measures/memorization_correlation", memorization=memorization, models=2, bootstrap=50)
    values = correlation.measure(given).values
    assert values["loss_spearman"] > 0.3 and values["ratio_flipped_auc"] > 0.8
    assert values["ratio_low"] <= values["ratio_spearman"] <= values["ratio_high"]
    assert len([key for key in given.cache if key[0] == "feldman"]) == 1


def test_simple_scores_are_their_formulas() -> None:
    logits, labels = torch.tensor([[2.0, 0.5, 1.0], [0.0, 0.0, 3.0]]).double(), torch.tensor([0, 1])
    found = simple_scores(logits, labels)
    p = logits.softmax(dim=1)
    assert found["margin"].tolist() == [1.0, -3.0]
    assert found["loss"].tolist() == pytest.approx([-float(p[0, 0].log()), -float(p[1, 1].log())])
    wanted = ((p - torch.eye(3)[labels]) ** 2).sum(dim=1).sqrt()
    assert found["el2n"].tolist() == pytest.approx(wanted.tolist())


def test_what_cannot_be_trained_side_by_side_is_told() -> None:
    measure = make("measures/feldman_memorization", models=10, steps=1)
    with pytest.raises(Skipped, match="batch norm"):
        measure.measure(trained(model={"type": "mlp", "hidden": [4], "norm": "batch"}))
    with pytest.raises(Skipped, match="neither clip_norm nor ema"):
        measure.measure(trained(train={"epochs": 1, "clip_norm": 1.0}))
    other = make("measures/memorization_correlation", memorization=make("measures/parameter_count"))
    with pytest.raises(Skipped, match="must be a feldman_memorization, not parameter_count"):
        other.measure(trained())
