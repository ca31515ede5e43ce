"""The user's own arrays."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from raycipe.components.data._splits import (
    beyond_float32,
    check_shares,
    classification_facts,
    regression_facts,
    shuffled_rows,
    standardizer,
)
from raycipe.framework.arguments import Fraction, InputFile
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.errors import RunError, shown
from raycipe.framework.registry import register
from raycipe.framework.words import listed

Arrays = dict[str, np.ndarray]
KEYS = ("x", "y", "x_val", "y_val", "x_test", "y_test")
MAX_CLASSES = 10**6  # more are ids or measured numbers


@register
class Npz(Data):
    """Your own arrays as NumPy's npz: `x` (examples, ...) and `y`.

    Whole-numbered y (examples,) are classes and must run from 0; floating-point y, (examples,) or (examples, targets),
    are measured targets. Where the file also holds `x_val` and `y_val` (or `x_test`, `y_test`), these are that split,
    and its share is not drawn. x becomes float32.

    Args:
        path: the file, written by numpy.savez; relative to the recipe
        standardize: shift and scale each entry of x to mean 0 and deviation 1 over the training examples
        val: share held out for choosing; 0 for no such split
        test: share held out for the final figure; 0 for no such split
        split_seed: draws the splits; null takes the recipe's seed, a number keeps them while the seed varies

    Recipe:
        data: {type: npz, path: waves.npz}
        model: mlp
        task: classification
        optimizer: {type: adam, lr: 0.01}
    """

    def __init__(
        self,
        path: Annotated[str, InputFile((".npz",))],
        standardize: bool = False,
        val: Fraction = 0.1,
        test: Fraction = 0.2,
        split_seed: int | None = None,
    ) -> None:
        check_shares(val, test)
        self.path = path
        self.standardize = standardize
        self.val = val
        self.test = test
        self.split_seed = split_seed

    def load(self, seed: int) -> dict[str, Split]:
        parts = self._parts(seed)
        mean, std = standardizer(parts["train"]["x"]) if self.standardize else (0.0, 1.0)
        shape = list(parts["train"]["x"].shape[1:])
        if parts["train"]["y"].dtype.kind in "biu":
            count = self._count_classes([part["y"] for part in parts.values()])
            self.facts = classification_facts(shape, [str(label) for label in range(count)])
        else:
            why = "y holds floating-point numbers: use `task: regression`, or store classes as whole numbers from 0"
            self.facts = regression_facts(shape, int(np.prod(parts["train"]["y"].shape[1:])), why)
        return {
            name: TensorSplit({"x": torch.from_numpy((part["x"] - mean) / std).float(), "y": _target(part["y"])})
            for name, part in parts.items()
        }

    def _count_classes(self, labels: list[np.ndarray]) -> int:
        low, high = min(int(y.min()) for y in labels), max(int(y.max()) for y in labels)
        if low < 0 or not 1 <= high < MAX_CLASSES:
            message = (
                f"{self.path}: whole-numbered y are classes and must run from 0 to at least 1, not {low} to {high}"
            )
            hint = "number the classes 0, 1, ...; store measured targets as floating point"
            raise RunError("data", message, hint, where="data.path")
        return high + 1

    def _parts(self, seed: int) -> dict[str, Arrays]:
        """x and y of each split, in the file's types."""
        arrays = self._read()
        own = [name for name in ("val", "test") if {f"x_{name}", f"y_{name}"} & arrays.keys()]
        whole = self._pair(arrays, "")
        val = 0.0 if "val" in own else self.val
        test = 0.0 if "test" in own else self.test
        rows = shuffled_rows(len(whole["x"]), val, test, seed if self.split_seed is None else self.split_seed)
        parts = {name: {key: values[index] for key, values in whole.items()} for name, index in rows.items()}
        for name in own:
            parts[name] = self._pair(arrays, f"_{name}")
            self._require_alike(parts[name], whole, name)
        return {name: parts[name] for name in ("train", "val", "test") if name in parts}

    def _read(self) -> Arrays:
        hint = "write it with numpy.savez(path, x=..., y=...); arrays of Python objects are refused"
        if not Path(self.path).is_file():
            raise RunError("data", f"{self.path}: no such file", "a path is relative to the recipe", where="data.path")
        if not zipfile.is_zipfile(self.path):
            raise RunError("data", f"{self.path}: is not an npz archive", hint, where="data.path")
        try:
            with np.load(self.path, allow_pickle=False) as opened:
                names = [name for name in opened.files if name in KEYS]
                arrays = {name: np.asarray(opened[name]) for name in names}  # what is no array comes as bytes
                return arrays or self._none(opened.files)
        except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
            raise RunError("data", f"{self.path}: {error}", hint, where="data.path") from error

    def _none(self, names: list[str]) -> Arrays:
        hint = f"it holds {listed([shown(name) for name in names]) or 'nothing'}"
        raise RunError("data", f"{self.path}: has no arrays `x` and `y`", hint, where="data.path")

    def _pair(self, arrays: Arrays, suffix: str) -> Arrays:
        pair: Arrays = {}
        for key in ("x", "y"):
            if key + suffix not in arrays:
                message = f"{self.path}: has no array `{key}{suffix}`"
                raise RunError("data", message, f"it holds {', '.join(sorted(arrays))}", where="data.path")
            values = pair[key] = arrays[key + suffix]
            self._require_usable(key + suffix, values)
        if len(pair["x"]) != len(pair["y"]) or not len(pair["x"]):
            message = f"{self.path}: x{suffix} has {len(pair['x'])} examples and y{suffix} has {len(pair['y'])}"
            raise RunError("data", message, "both need the same number, at least one", where="data.path")
        return pair

    def _require_usable(self, name: str, values: np.ndarray) -> None:
        """Raise RunError for a wrong dtype, a wrong shape, and a value that is not finite."""
        is_x = name.startswith("x")
        dims = values.ndim >= 2 if is_x else values.ndim == 1 or (values.ndim > 1 and values.dtype.kind == "f")
        if values.dtype.kind not in "biuf" or not dims or 0 in values.shape[1:]:
            message = f"{self.path}: `{name}` is {shown(values.dtype)} of shape {values.shape}"
            hint = "x needs numbers of shape (examples, ...), y classes (examples,) or floats (examples, targets)"
            raise RunError("data", message, hint, where="data.path")
        bad = ~np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
        if bad.any():
            message = (
                f"{self.path}: `{name}`, example {int(np.flatnonzero(bad)[0])} (from 0), holds a NaN or an infinity"
            )
            raise RunError("data", message, f"correct or remove such examples ({int(bad.sum())})", where="data.path")
        large = beyond_float32(values)
        if large.any():
            at = np.argwhere(large)[0].tolist()
            place = ", ".join(map(str, at))
            message = f"{self.path}: `{name}[{place}]` is {values[tuple(at)]:g}, which float32 cannot hold"
            raise RunError("data", message, "3.4e38 at most: scale the numbers in the file", where="data.path")

    def _require_alike(self, part: Arrays, whole: Arrays, name: str) -> None:
        """Raise RunError if a split of its own is of another shape or kind than the training examples."""
        for key, values in part.items():
            train = whole[key]
            if values.shape[1:] != train.shape[1:] or (
                key == "y" and (values.dtype.kind == "f") != (train.dtype.kind == "f")
            ):
                message = f"{self.path}: `{key}_{name}` is {values.dtype} of shape {values.shape}"
                hint = f"one example must be as in `{key}`, {train.dtype} of shape {train.shape}"
                raise RunError("data", message, hint, where="data.path")


def _target(y: np.ndarray) -> torch.Tensor:
    """Classes (examples,) int64, or targets (examples, d) float32."""
    if y.dtype.kind in "biu":
        return torch.from_numpy(y.astype(np.int64))
    return torch.from_numpy(y.astype(np.float32)).reshape(len(y), -1)
