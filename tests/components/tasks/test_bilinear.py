"""bilinear: its values, and matrices that do not fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raycipe.framework.contracts import TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def test_values_equal_the_formula(game: Any) -> None:
    found = game("bilinear", {"matrix": [[1.0, 2.0], [0.0, -1.0]], "mu_w": 2.0, "mu_v": 4.0}, width=2, targets="noise")
    w, v = torch.tensor([1.0, -2.0]).double(), torch.tensor([3.0, 0.5]).double()
    quiet = {"x": torch.zeros(1, 2), "y": torch.zeros(1, 2), "id": torch.zeros(1, dtype=torch.int64)}
    # |w|² = 5, w'Av = 1*(3 + 1) + (-2)(-0.5) = 5, |v|² = 9.25
    assert found.flat.value(w, v, quiet).tolist() == [5 + 5 - 18.5]
    noisy = {**quiet, "x": torch.tensor([[1.0, 1.0]]), "y": torch.tensor([[2.0, 0.0]])}
    assert found.flat.value(w, v, noisy).tolist() == [5 + 5 - 18.5 - 1 - 6]
    assert not make("tasks/bilinear").strongly_concave() and make("tasks/bilinear", mu_v=1.0).strongly_concave()


def test_matrices_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="matrix: its rows must have one length"):
        make("tasks/bilinear", matrix=[[1.0], [1.0, 2.0]])
    split = TensorSplit({"x": torch.ones(3, 2), "y": torch.ones(3, 2)})
    with pytest.raises(RunError, match="is 1 x 1, but the data disturb 2 entries of w and 2 of v"):
        make("tasks/bilinear", matrix=[[1.0]]).check({}, {"train": split})
