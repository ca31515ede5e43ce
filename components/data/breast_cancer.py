"""Breast tumours: benign or malignant."""

from __future__ import annotations

import torch

from raycipe.components.data._splits import (
    check_shares,
    classification_facts,
    shuffled_rows,
    standardizer,
    tensor_splits,
)
from raycipe.framework.arguments import Fraction
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register


@register
class BreastCancer(Data):
    """Breast tumours, malignant (0) or benign (1): 569 examples of 30 measured features, bundled with scikit-learn.

    x is (30,) with mean 0 and deviation 1 over the training examples, y the class. The splits are drawn at random once.

    Args:
        standardize: shift and scale each feature as above; the raw ones differ by a factor of 10,000
        val: share held out for choosing; 0 for no such split
        test: share held out for the final figure; 0 for no such split
        split_seed: draws the splits; null takes the recipe's seed, a number keeps them while the seed varies

    Reference:
        W. N. Street, W. H. Wolberg, O. L. Mangasarian, Nuclear Feature Extraction for Breast Tumor Diagnosis, 1993.

    Recipe:
        data: breast_cancer
        model: linear
        task: classification
        optimizer: {type: sgd, lr: 0.1}
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
        from sklearn.datasets import load_breast_cancer

        bunch = load_breast_cancer()
        x = bunch.data
        rows = shuffled_rows(len(x), self.val, self.test, seed if self.split_seed is None else self.split_seed)
        if self.standardize:
            mean, std = standardizer(x[rows["train"]])
            x = (x - mean) / std
        self.facts = classification_facts([x.shape[1]], [str(name) for name in bunch.target_names])
        self.facts["feature_names"] = [str(name) for name in bunch.feature_names]
        arrays = {"x": torch.from_numpy(x).float(), "y": torch.from_numpy(bunch.target).long()}
        return {**tensor_splits(arrays, rows)}
