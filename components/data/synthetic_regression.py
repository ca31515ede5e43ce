"""A linear target with Gaussian noise."""

from __future__ import annotations

import numpy as np
import torch

from raycipe.components.data._splits import check_shares, regression_facts, shuffled_rows, tensor_splits
from raycipe.framework.arguments import Count, Fraction, NonNegative, Width
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class SyntheticRegression(Data):
    """Linear regression with known noise: the best possible mean squared error is `noise` squared.

    x ~ N(0, I_d), w ~ N(0, I_d / d), y = x·w + noise · N(0, 1); all in float32.

    Args:
        examples: how many examples are drawn, over all splits
        features: d, the length of x
        noise: standard deviation of what x cannot explain
        val: share held out for choosing; 0 for no such split
        test: share held out for the final figure; 0 for no such split

    Recipe:
        data: {type: synthetic_regression, examples: 500, features: 5, noise: 0.1}
        model: linear
        task: regression
        optimizer: {type: sgd, lr: 0.1}
    """

    def __init__(
        self,
        examples: Count = 1000,
        features: Width = 10,
        noise: NonNegative = 0.1,
        val: Fraction = 0.1,
        test: Fraction = 0.2,
    ) -> None:
        check_shares(val, test)
        self.examples = examples
        self.features = features
        self.noise = noise
        self.val = val
        self.test = test

    def load(self, seed: int) -> dict[str, Split]:
        generator = numpy_generator(seed, "synthetic_regression")
        weights = generator.normal(size=self.features) / np.sqrt(self.features)
        x = generator.normal(size=(self.examples, self.features))
        y = x @ weights + self.noise * generator.normal(size=self.examples)
        arrays = {"x": torch.from_numpy(x).float(), "y": torch.from_numpy(y).float().unsqueeze(1)}
        self.facts = regression_facts([self.features], 1)
        return {**tensor_splits(arrays, shuffled_rows(self.examples, self.val, self.test, seed))}
