"""point: the same vector for every example."""

from __future__ import annotations

import torch

from raycipe.framework.registry import make


def test_every_example_gets_the_point() -> None:
    point = make("models/point", dim=3, start=2.0)
    assert point(torch.zeros(4, 9)).tolist() == [[2.0] * 3] * 4
    torch.manual_seed(0)
    assert len(set(make("models/point", dim=3).w.tolist())) == 3
