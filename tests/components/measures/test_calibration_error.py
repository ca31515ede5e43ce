"""The calibration error of classifiers whose confidence is known."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from raycipe.components.measures.calibration_error import reliability
from raycipe.framework.contracts import Skipped
from raycipe.framework.registry import make


def test_bins_hold_their_upper_end() -> None:
    confidence, correct = torch.tensor([0.5, 0.50001, 1.0, 0.0]), torch.tensor([1.0, 0.0, 1.0, 0.0])
    counts, accuracy, mean = reliability(confidence.double(), correct.double(), 2)
    assert counts.tolist() == [2, 2] and accuracy.tolist() == [0.5, 0.5]
    assert mean.tolist() == pytest.approx([0.25, 0.750005])


def test_calibration_error_of_a_known_classifier(trained: Any) -> None:
    p = 0.75
    logits = torch.tensor([[math.log(p / (1 - p)), 0.0]]).repeat(10, 1)
    labels = [0] * 6 + [1] * 4  # right in 6 of 10 cases, sure of 7.5
    found = make("measures/calibration_error", bins=10).measure(trained(nn.Identity(), logits, labels))
    assert found.values == pytest.approx({"ece": 0.15, "mce": 0.15, "overconfidence": 0.15}, abs=1e-7)
    (row,) = found.tables["reliability"]
    assert row["bin"] == "0.700 .. 0.800" and row["examples"] == 10
    assert row["confidence"] == pytest.approx(0.75) and row["accuracy"] == pytest.approx(0.6)
    axes = found.figures["reliability"]().axes
    assert axes[0].get_title() == "expected calibration error 0.150" and axes[1].get_xlabel() == "confidence"


def test_opposite_gaps_do_not_cancel_in_the_error(trained: Any) -> None:
    sure, unsure = math.log(9.0), 0.5
    logits = torch.tensor([[sure, 0.0]] * 10 + [[unsure, 0.0]] * 10, dtype=torch.float64)
    labels = [1] * 10 + [0] * 10  # all of the sure ones wrong, all of the others right
    values = make("measures/calibration_error", bins=10).measure(trained(nn.Identity(), logits, labels)).values
    low = 1 / (1 + math.exp(-unsure))
    assert values["ece"] == pytest.approx((0.9 + (1 - low)) / 2) and values["mce"] == pytest.approx(0.9)
    assert values["overconfidence"] == pytest.approx((0.9 + low) / 2 - 0.5)


def test_it_skips_where_it_can_say_nothing(trained: Any) -> None:
    with pytest.raises(Skipped, match="the data has no classes"):
        make("measures/calibration_error").measure(trained(nn.Identity()))
    with pytest.raises(Skipped, match="no `val` split"):
        make("measures/calibration_error", split="val").measure(trained(nn.Identity(), torch.eye(2), [0, 1]))
