"""Files in the sparse text format of LIBSVM."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch

from raycipe.components.data._splits import (
    beyond_float32,
    check_shares,
    classification_facts,
    regression_facts,
    shuffled_rows,
    standardizer,
    tensor_splits,
)
from raycipe.components.data._words import spelled
from raycipe.framework.arguments import Count, Fraction, InputFile
from raycipe.framework.contracts import Data, Split
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register

MAX_FLOATS = 500_000_000  # a dense table beyond this would not fit


@register
class LibsvmFile(Data):
    """A file of lines `label index:value index:value ...`, as LIBSVM and its collection of data use it.

    x is dense, (num_features,) float32, 0 where a line is silent. Labels that are whole numbers become classes 0, 1,
    ... in ascending order (-1 becomes 0, +1 becomes 1); others are measured targets. Nothing is downloaded.

    Args:
        path: the file; .bz2 and .gz are read as they are
        features: number of features; null takes the largest index of the file
        target_type: class, number, or auto: classes if every label is a whole number
        standardize: give every feature mean 0 and deviation 1 over the training examples
        val: share held out for choosing; 0 for no such split
        test: share held out for the final figure; 0 for no such split
        split_seed: draws the splits; null takes the recipe's seed, a number keeps them while the seed varies

    Reference:
        C.-C. Chang, C.-J. Lin, LIBSVM: A Library for Support Vector Machines, ACM TIST, 2011.

    Recipe:
        data: {type: libsvm_file, path: a9a.libsvm}
        model: linear
        task: classification
        optimizer: {type: sgd, lr: 0.1}
    """

    def __init__(
        self,
        path: Annotated[str, InputFile((".libsvm", ".svm", ".txt", ".t", ".bz2", ".gz"))],
        features: Count | None = None,
        target_type: Literal["auto", "class", "number"] = "auto",
        standardize: bool = False,
        val: Fraction = 0.1,
        test: Fraction = 0.2,
        split_seed: int | None = None,
    ) -> None:
        check_shares(val, test)
        self.path = path
        self.features = features
        self.target_type = target_type
        self.standardize = standardize
        self.val = val
        self.test = test
        self.split_seed = split_seed

    def load(self, seed: int) -> dict[str, Split]:
        x, y = self._read()
        rows = shuffled_rows(len(x), self.val, self.test, seed if self.split_seed is None else self.split_seed)
        if self.standardize:
            mean, std = standardizer(x[rows["train"]])
            x = (x - mean) / std
        arrays = {"x": torch.from_numpy(x.astype(np.float32)), "y": self._targets(y, x.shape[1])}
        return {**tensor_splits(arrays, rows)}

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        from sklearn.datasets import load_svmlight_file

        try:
            table, y = load_svmlight_file(self.path, n_features=self.features)
        except ValueError as error:
            with Path(self.path).open("rb") as opened:
                if opened.read(2) in (b"\xff\xfe", b"\xfe\xff"):
                    hint = "save it as UTF-8 or ASCII"
                    raise RunError("data", f"{self.path}: is UTF-16, not UTF-8", hint, where="data.path") from error
            hint = "each line reads `label index:value index:value ...`, indices ascending; see data.features"
            raise RunError("data", f"{self.path}: {error}", hint, where="data.path") from error
        if not table.shape[0]:
            raise RunError("data", f"{self.path}: no rows", where="data.path")
        if table.shape[0] * table.shape[1] > MAX_FLOATS:
            message = f"{self.path}: {table.shape[0]:,} x {table.shape[1]:,} numbers do not fit as a dense table"
            raise RunError("data", message, "set data.features, or bring a smaller file", where="data.path")
        x = table.toarray()
        self._require_float32(x, y)
        return x, y

    def _require_float32(self, x: np.ndarray, y: np.ndarray) -> None:
        """Raise RunError naming example and feature of a value that float32 cannot hold, an infinity or NaN too."""
        for what, values in (("feature", x), ("label", y[:, None])):
            bad = beyond_float32(values) | np.isnan(values)
            if bad.any():
                row, column = np.argwhere(bad)[0].tolist()
                named = f"feature {column + 1}" if what == "feature" else what
                message = f"{self.path}: {named} of example {row + 1} is {values[row, column]:g}"
                raise RunError("data", f"{message}, which float32 cannot hold as a number", where="data.path")

    def _targets(self, y: np.ndarray, width: int) -> torch.Tensor:
        whole = bool(np.all(y == np.round(y)))
        if self.target_type == "class" and not whole:
            at = int(np.flatnonzero(y != np.round(y))[0])
            message = f"{self.path}: label {y[at]:g} of line {at + 1} is no class number"
            raise RunError("data", message, "set data.target_type: number", where="data.target_type")
        if self.target_type == "number" or not whole:
            self.facts: dict[str, Any] = regression_facts([width], 1)
            return torch.from_numpy(y.astype(np.float32)).unsqueeze(1)
        names, numbers = np.unique(y, return_inverse=True)
        self.facts = classification_facts([width], spelled(names).tolist())
        return torch.from_numpy(numbers.astype(np.int64))
