"""The user's own arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from raycipe.framework.errors import RunError
from raycipe.framework.registry import make


def save(tmp_path: Path, **arrays: Any) -> str:
    path = tmp_path / "arrays.npz"
    np.savez(path, **arrays)
    return str(path)


def test_whole_numbers_are_classes_and_floats_are_targets(tmp_path: Path) -> None:
    x = np.arange(60.0).reshape(20, 3)
    data = make("data/npz", path=save(tmp_path, x=x, y=np.arange(20) % 4))
    splits = data.load(0)
    assert data.facts["num_classes"] == 4 and data.facts["input_shape"] == [3]
    assert splits["train"].tensors["x"].dtype == torch.float32 and splits["train"].tensors["y"].dtype == torch.int64
    data = make("data/npz", path=save(tmp_path, x=x, y=x[:, :2]))
    assert data.load(0)["val"].tensors["y"].shape == (2, 2) and data.facts["num_outputs"] == 2


def test_own_val_and_test_arrays_win_over_the_shares(tmp_path: Path) -> None:
    x, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    path = save(tmp_path, x=x, y=y, x_test=x[:3] + 0.5, y_test=y[:3])
    splits = make("data/npz", path=path, val=0.1, standardize=True).load(0)
    assert {name: len(split) for name, split in splits.items()} == {"train": 18, "val": 2, "test": 3}
    train = splits["train"].tensors["x"]
    torch.testing.assert_close(train.mean(0), torch.zeros(2), rtol=0, atol=1e-6)
    torch.testing.assert_close(train.std(0, correction=0), torch.ones(2), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.ones((4, 2))}, "has no array `y`"),
        ({"x": np.ones((4, 2)), "y": np.ones(3)}, "x has 4 examples and y has 3"),
        ({"x": np.ones(4), "y": np.ones(4)}, "`x` is float64 of shape"),
        ({"x": np.ones((4, 2)), "y": np.array(["a"] * 4)}, "`y` is <U1"),
        ({"x": np.ones((4, 2)), "y": np.array([0, 1, -1, 2])}, "must run from 0"),
        ({"x": np.ones((4, 2)), "y": np.array([{}] * 4)}, "Object arrays cannot be loaded"),
    ],
)
def test_unusable_arrays_are_refused_by_name(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    with pytest.raises(RunError) as caught:
        make("data/npz", path=save(tmp_path, **arrays)).load(0)
    assert words in str(caught.value)


def test_a_missing_file_and_a_single_array_are_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such file"):
        make("data/npz", path=str(tmp_path / "none.npz")).load(0)
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(RunError, match=r"write it with numpy\.savez"):
        make("data/npz", path=str(tmp_path / "one.npy")).load(0)
