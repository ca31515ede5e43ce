"""parameter_count, weight_norms, calibration_error and confusion_matrix on values that can be checked by eye."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from raycipe.components.measures.calibration_error import reliability
from raycipe.framework.contracts import Skipped, TensorSplit, Trained
from raycipe.framework.registry import make


def trained(model: nn.Module, x: torch.Tensor | None = None, y: Any = None, **rest: Any) -> Trained:
    splits = {} if x is None else {"test": TensorSplit({"x": x, "y": torch.as_tensor(y)})}
    facts = {} if x is None else {"num_classes": x.shape[1], "class_names": [f"c{k}" for k in range(x.shape[1])]}
    return Trained(recipe={}, splits=splits, facts=facts, model=model.eval(), **rest)


def test_parameters_are_counted_once_and_frozen_ones_are_not_trained() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    model[2].weight = model[0].weight
    model[2].bias.requires_grad_(False)
    found = make("measures/parameter_count").measure(trained(model))
    assert found.values == {"total": 9 + 3 + 3 + 3 + 3, "trainable": 18, "bytes": 21 * 4 + 2 * 3 * 4 + 8}
    assert found.tables["parts"][0] == {"part": "0", "parameters": 12}


def test_weight_norms_and_the_distance_from_the_start() -> None:
    def build(value: float) -> nn.Module:
        model = nn.Linear(2, 2)
        nn.init.constant_(model.weight, value)
        nn.init.constant_(model.bias, 0.0)
        return model

    found = make("measures/weight_norms").measure(trained(build(3.0), initial_model=lambda: build(1.0)))
    assert found.values == {"norm": 6.0, "largest": 3.0, "distance": 4.0}
    assert found.tables["norms"][0] == {"parameter": "weight", "norm": 6.0, "distance": 4.0}
    assert "distance" not in make("measures/weight_norms").measure(trained(build(3.0))).values


def test_bins_hold_their_upper_end() -> None:
    confidence, correct = torch.tensor([0.5, 0.50001, 1.0, 0.0]), torch.tensor([1.0, 0.0, 1.0, 0.0])
    counts, accuracy, mean = reliability(confidence.double(), correct.double(), 2)
    assert counts.tolist() == [2, 2] and accuracy.tolist() == [0.5, 0.5]
    assert mean.tolist() == pytest.approx([0.25, 0.750005])


def test_calibration_error_of_a_known_classifier() -> None:
    p = 0.8
    logits = torch.tensor([[math.log(p / (1 - p)), 0.0]]).repeat(10, 1)
    labels = [0] * 6 + [1] * 4  # right in 6 of 10 cases, sure of 8
    measure = make("measures/calibration_error", bins=10)
    found = measure.measure(trained(nn.Identity(), logits, labels))
    assert found.values == pytest.approx({"ece": 0.2, "mce": 0.2, "overconfidence": 0.2})
    assert (
        found.tables["reliability"]
        == [{"bin": "0.700 .. 0.800", "examples": 10, "confidence": pytest.approx(0.8), "accuracy": pytest.approx(0.6)}]
        or found.tables["reliability"][0]["bin"] == "0.800 .. 0.900"
    )
    axes = found.figures["reliability"]().axes
    assert axes[0].get_title() == "expected calibration error 0.200" and axes[1].get_xlabel() == "confidence"


def test_confusion_matrix_counts_labels_in_rows() -> None:
    logits = torch.eye(3)[[0, 1, 1, 2, 0]]
    found = make("measures/confusion_matrix").measure(trained(nn.Identity(), logits, [0, 0, 1, 2, 2]))
    assert [[row[f"as c{k}"] for k in range(3)] for row in found.tables["confusion"]] == [
        [1, 1, 0],
        [0, 1, 0],
        [1, 0, 1],
    ]
    assert found.values == pytest.approx({"balanced_accuracy": 2 / 3, "worst_recall": 0.5})
    texts = [text.get_text() for text in found.figures["confusion"]().axes[0].texts]
    assert texts == ["1"] * 5


def test_a_class_that_does_not_occur_is_left_out_of_the_means() -> None:
    found = make("measures/confusion_matrix").measure(trained(nn.Identity(), torch.eye(3)[[0, 1]], [0, 1]))
    assert found.values == {"balanced_accuracy": 1.0, "worst_recall": 1.0}


def test_predictions_are_computed_once_for_all_measures_of_a_run() -> None:
    calls = []

    class Counting(nn.Identity):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(len(x))
            return x

    run = trained(Counting(), torch.eye(3), [0, 1, 2])
    make("measures/calibration_error").measure(run)
    make("measures/confusion_matrix").measure(run)
    assert calls == [3]


@pytest.mark.parametrize("name", ["calibration_error", "confusion_matrix"])
def test_measures_of_classifiers_skip_where_they_can_say_nothing(name: str) -> None:
    with pytest.raises(Skipped, match="the data has no classes"):
        make(f"measures/{name}").measure(trained(nn.Identity()))
    with pytest.raises(Skipped, match="no `val` split"):
        make(f"measures/{name}", split="val").measure(trained(nn.Identity(), torch.eye(2), [0, 1]))
