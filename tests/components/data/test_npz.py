"""The user's own arrays."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from raycipe.framework.errors import RecipeError, RunError
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
        ({"x": np.ones((4, 2)), "y": np.zeros(4, int)}, "must run from 0 to at least 1, not 0 to 0"),
        ({"x": np.ones((4, 2)), "y": np.array([0, 1, 2, 10**12])}, "not 0 to 1000000000000"),
        ({"x": np.ones((4, 2)), "y": np.ones((4, 1), int)}, "`y` is int64 of shape (4, 1)"),
        ({"x": np.ones((4, 0)), "y": np.ones(4)}, "`x` is float64 of shape (4, 0)"),
        ({"x": np.ones((0, 2)), "y": np.ones(0)}, "x has 0 examples and y has 0"),
        ({"x": np.ones((4, 2)) * 1j, "y": np.ones(4)}, "`x` is complex128"),
        ({"x": np.array([[1.0], [np.nan]]), "y": np.ones(2)}, "`x`, example 1 (from 0), holds a NaN"),
        ({"x": np.ones((2, 1)), "y": np.array([np.inf, 1])}, "`y`, example 0 (from 0), holds a NaN or an infinity"),
        ({"data": np.ones((4, 2)), "labels": np.ones(4)}, "has no arrays `x` and `y`\n    it holds data, labels"),
        ({"x": np.ones((4, 2)), "y": np.ones(4), "y_val": np.ones(2)}, "has no array `x_val`"),
        (
            {"x": np.ones((4, 2)), "y": np.ones(4), "x_val": np.ones((2, 3)), "y_val": np.ones(2)},
            "`x_val` is float64 of shape (2, 3)\n    one example must be as in `x`, float64 of shape (4, 2)",
        ),
        (
            {"x": np.ones((4, 2)), "y": np.ones(4), "x_val": np.ones((2, 2)), "y_val": np.ones(2, int)},
            "`y_val` is int64",
        ),
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


def test_other_arrays_are_not_opened(tmp_path: Path) -> None:
    x = np.arange(40.0).reshape(20, 2)
    path = save(tmp_path, x=x, y=np.arange(20) % 2, names=np.array([{}] * 20), x_raw=np.array([{}]))
    assert len(make("data/npz", path=path).load(0)["train"]) == 14


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "words")
        archive.writestr("y", "words")
    with pytest.raises(RunError, match=r"`x` is \|S5 of shape \(\)"):
        make("data/npz", path=str(path)).load(0)


def test_floating_point_classes_are_told_to_the_classification(tmp_path: Path) -> None:
    data = make("data/npz", path=save(tmp_path, x=np.ones((20, 2)), y=np.arange(20.0)))
    data.load(0)
    with pytest.raises(RecipeError, match="y holds floating-point numbers: use `task: regression`, or store classes"):
        make("tasks/classification", facts=data.facts)


def test_a_number_beyond_float32_is_told_with_its_place(tmp_path: Path) -> None:
    x = np.ones((20, 2, 3))
    x[4, 1, 2] = -1e300
    with pytest.raises(RunError, match=r"`x\[4, 1, 2\]` is -1e\+300, which float32 cannot hold\n    3.4e38 at most"):
        make("data/npz", path=save(tmp_path, x=x, y=np.arange(20) % 2)).load(0)
    y = np.where(np.arange(20) == 7, 1e39, 0.5)
    with pytest.raises(RunError, match=r"`y\[7\]` is 1e\+39"):
        make("data/npz", path=save(tmp_path, x=np.ones((20, 2)), y=y)).load(0)
