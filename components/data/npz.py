"""The user's own arrays."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from raycipe.components.data._splits import (
    check_shares,
    classification_facts,
    regression_facts,
    shuffled_rows,
    standardizer,
)
from raycipe.framework.arguments import Fraction, InputFile
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register

Arrays = dict[str, np.ndarray]


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
            count = max(int(part["y"].max()) for part in parts.values()) + 1
            if count < 2 or min(int(part["y"].min()) for part in parts.values()) < 0:
                message = f"{self.path}: whole-numbered y are classes and must run from 0 to at least 1"
                raise RunError("data", message, "store measured targets as floating point", where="data.path")
            self.facts = classification_facts(shape, [str(label) for label in range(count)])
        else:
            self.facts = regression_facts(shape, int(np.prod(parts["train"]["y"].shape[1:])))
        return {
            name: TensorSplit({"x": torch.from_numpy((part["x"] - mean) / std).float(), "y": _target(part["y"])})
            for name, part in parts.items()
        }

    def _parts(self, seed: int) -> dict[str, Arrays]:
        """x and y of each split, in the file's types."""
        arrays = self._read()
        own = [name for name in ("val", "test") if f"x_{name}" in arrays]
        whole = self._pair(arrays, "")
        val = 0.0 if "val" in own else self.val
        test = 0.0 if "test" in own else self.test
        rows = shuffled_rows(len(whole["x"]), val, test, seed if self.split_seed is None else self.split_seed)
        parts = {name: {key: values[index] for key, values in whole.items()} for name, index in rows.items()}
        parts.update({name: self._pair(arrays, f"_{name}") for name in own})
        return {name: parts[name] for name in ("train", "val", "test") if name in parts}

    def _read(self) -> Arrays:
        hint = "write it with numpy.savez(path, x=..., y=...); arrays of Python objects are refused"
        if not Path(self.path).is_file():
            raise RunError("data", f"{self.path}: no such file", "a path is relative to the recipe", where="data.path")
        if not zipfile.is_zipfile(self.path):
            raise RunError("data", f"{self.path}: is not an npz archive", hint, where="data.path")
        try:
            with np.load(self.path, allow_pickle=False) as opened:
                return {name: opened[name] for name in opened.files if name.partition("_")[0] in ("x", "y")}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise RunError("data", f"{self.path}: {error}", hint, where="data.path") from error

    def _pair(self, arrays: Arrays, suffix: str) -> Arrays:
        pair: Arrays = {}
        for key in ("x", "y"):
            if key + suffix not in arrays:
                known = ", ".join(sorted(arrays)) or "neither x nor y"
                message = f"{self.path}: has no array `{key}{suffix}`"
                raise RunError("data", message, f"it holds {known}", where="data.path")
            values = pair[key] = arrays[key + suffix]
            if values.dtype.kind not in "biuf" or values.ndim < (2 if key == "x" else 1):
                message = f"{self.path}: `{key}{suffix}` is {values.dtype} of shape {values.shape}"
                hint = "x needs numbers of shape (examples, ...), y (examples,) or (examples, targets)"
                raise RunError("data", message, hint, where="data.path")
        if len(pair["x"]) != len(pair["y"]) or not len(pair["x"]):
            message = f"{self.path}: x{suffix} has {len(pair['x'])} examples and y{suffix} has {len(pair['y'])}"
            raise RunError("data", message, "both need the same number, at least one", where="data.path")
        return pair


def _target(y: np.ndarray) -> torch.Tensor:
    """Classes (examples,) int64, or targets (examples, d) float32."""
    if y.dtype.kind in "biu":
        return torch.from_numpy(y.astype(np.int64))
    return torch.from_numpy(y.astype(np.float32)).reshape(len(y), -1)
