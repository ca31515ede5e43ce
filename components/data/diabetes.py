"""Progression of diabetes in a year."""

from __future__ import annotations

import torch

from raycipe.components.data._splits import check_shares, regression_facts, shuffled_rows, standardizer, tensor_splits
from raycipe.framework.arguments import Fraction
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register


@register
class Diabetes(Data):
    """Progression of diabetes after one year: 442 patients, 10 measurements each, bundled with scikit-learn.

    x is (10,) and y (1,), both with mean 0 and deviation 1 over the training examples. The splits are drawn at random
    once.

    Args:
        standardize: shift and scale features and target as above; the raw target lies between 25 and 346
        val: share held out for choosing; 0 for no such split
        test: share held out for the final figure; 0 for no such split
        split_seed: draws the splits; null takes the recipe's seed, a number keeps them while the seed varies

    Reference:
        B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, Least Angle Regression, Annals of Statistics, 2004.

    Recipe:
        data: diabetes
        model: linear
        task: {type: regression, metrics: [r2]}
        optimizer: {type: sgd, lr: 0.02}
    """

    def __init__(
        self, standardize: bool = True, val: Fraction = 0.1, test: Fraction = 0.2, split_seed: int | None = None
    ) -> None:
        check_shares(val, test)
        self.standardize = standardize
        self.val = val
        self.test = test
        self.split_seed = split_seed

    def load(self, seed: int) -> dict[str, Split]:
        from sklearn.datasets import load_diabetes

        bunch = load_diabetes(scaled=False)
        x, y = bunch.data, bunch.target[:, None]
        rows = shuffled_rows(len(x), self.val, self.test, seed if self.split_seed is None else self.split_seed)
        if self.standardize:
            x, y = ((values - mean) / std for values in (x, y) for mean, std in [standardizer(values[rows["train"]])])
        self.facts = regression_facts([x.shape[1]], 1)
        self.facts["feature_names"] = [str(name) for name in bunch.feature_names]
        arrays = {"x": torch.from_numpy(x).float(), "y": torch.from_numpy(y).float()}
        return {**tensor_splits(arrays, rows)}
