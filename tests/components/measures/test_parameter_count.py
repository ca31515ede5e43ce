"""The number of parameters."""

from __future__ import annotations

from typing import Any

from torch import nn

from raycipe.framework.registry import make


def test_parameters_are_counted_once_and_frozen_ones_are_not_trained(trained: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    model[2].weight = model[0].weight
    model[2].bias.requires_grad_(False)
    found = make("measures/parameter_count").measure(trained(model))
    assert found.values == {"total": 9 + 3 + 3 + 3 + 3, "trainable": 18, "bytes": 21 * 4 + 2 * 3 * 4 + 8}
    assert found.tables["parts"][0] == {"part": "0", "parameters": 12}
