"""The confusion matrix."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from raycipe.framework.contracts import Skipped
from raycipe.framework.registry import make


def test_labels_stand_in_rows_and_predictions_in_columns(trained: Any) -> None:
    logits = torch.eye(3)[[0, 1, 1, 2, 0]]
    found = make("measures/confusion_matrix").measure(trained(nn.Identity(), logits, [0, 0, 1, 2, 2]))
    rows = [[row[f"as c{k}"] for k in range(3)] for row in found.tables["confusion"]]
    assert rows == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    assert found.values == pytest.approx({"balanced_accuracy": 2 / 3, "worst_recall": 0.5})
    texts = [text.get_text() for text in found.figures["confusion"]().axes[0].texts]
    assert texts == ["1"] * 5


def test_a_class_that_does_not_occur_is_left_out_of_the_means(trained: Any) -> None:
    found = make("measures/confusion_matrix").measure(trained(nn.Identity(), torch.eye(3)[[0, 1]], [0, 1]))
    assert found.values == {"balanced_accuracy": 1.0, "worst_recall": 1.0}


def test_many_classes_are_drawn_without_numbers(trained: Any) -> None:
    found = make("measures/confusion_matrix").measure(trained(nn.Identity(), torch.eye(30), list(range(30))))
    assert not found.figures["confusion"]().axes[0].texts


def test_predictions_are_computed_once_for_all_measures_of_a_run(trained: Any) -> None:
    calls = []

    class Counting(nn.Identity):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(len(x))
            return x

    run = trained(Counting(), torch.eye(3), [0, 1, 2])
    make("measures/calibration_error").measure(run)
    make("measures/confusion_matrix").measure(run)
    assert calls == [3]


def test_it_skips_where_it_can_say_nothing(trained: Any) -> None:
    with pytest.raises(Skipped, match="the data has no classes"):
        make("measures/confusion_matrix").measure(trained(nn.Identity()))
