"""Handwritten digits, 8 × 8 pixels."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from raycipe.components.data._splits import check_shares, classification_facts, shuffled_rows, tensor_splits
from raycipe.framework.arguments import Fraction
from raycipe.framework.contracts import Data, Split
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class Digits(Data):
    """Handwritten digits: 1,797 grey images of 8 × 8 pixels in ten classes, bundled with scikit-learn.

    x is (1, 8, 8) with pixels scaled from 0..16 to 0..1, y the digit. The splits are drawn at random once.

    Args:
        val: share of the images that is held out for choosing (early stopping, sweeps); 0 for no such split
        test: share of the images that is held out for the final figure; 0 for no such split
        split_seed: draws the splits; null takes the recipe's seed, a number keeps them while the seed varies

    Reference:
        E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998.

    Recipe:
        data: {type: digits, val: 0.1, test: 0.2}
        model: {type: mlp, hidden: [64]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
    """

    def __init__(self, val: Fraction = 0.1, test: Fraction = 0.2, split_seed: int | None = None) -> None:
        check_shares(val, test)
        self.val = val
        self.test = test
        self.split_seed = split_seed

    def load(self, seed: int) -> dict[str, Split]:
        table = np.loadtxt(_file(), delimiter=",")  # (1797, 65): 64 pixels and the digit
        labels = table[:, -1]
        arrays = {
            "x": torch.from_numpy(table[:, :-1] / 16).float().reshape(-1, 1, 8, 8),
            "y": torch.from_numpy(labels).long(),
        }
        self.facts = classification_facts([1, 8, 8], [str(digit) for digit in range(10)])
        split_seed = seed if self.split_seed is None else self.split_seed
        return {**tensor_splits(arrays, shuffled_rows(len(labels), self.val, self.test, split_seed))}


def _file() -> Path:
    """scikit-learn's own file, found without importing scikit-learn: that takes a second, in every worker and trial."""
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise RunError(
            "data", "scikit-learn, which brings the digits, is not installed", "pip install scikit-learn", "data"
        )
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if not file.is_file():
        raise RunError("data", f"scikit-learn has no {file}", "install a version that raycipe supports", "data")
    return file
