"""Two classes of sparse binary features."""

from __future__ import annotations

import numpy as np
import torch

from raycipe.components.data._splits import check_shares, classification_facts, shuffled_rows, tensor_splits
from raycipe.framework.arguments import Count, Fraction, Positive, Width
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class SparseBinary(Data):
    """Two classes of rows with a few ones, as categories in one-hot form give them (the census data a9a, say).

    `nnz` of the `features` entries of a row are 1/sqrt(nnz), so that |x| = 1; features are drawn without replacement
    with chances proportional to 1/rank. y ~ Bernoulli(sigmoid(sharpness · (x·w + b))) with w ~ N(0, I) and b set so
    that the share `positive` of the training rows is expected to be 1.

    Args:
        examples: how many examples are drawn, over all splits
        features: d, the length of x
        nnz: entries of a row that are not 0
        positive: share of the class 1
        sharpness: how much the features say about the class; 0 nothing
        val: share held out for choosing; 0 for no such split
        test: share held out for the final figure; 0 for no such split

    Reference:
        J. Platt, Fast Training of Support Vector Machines using Sequential Minimal Optimization, 1998 (a9a).

    Recipe:
        data: {type: sparse_binary, examples: 1000}
        model: {type: linear, zero_init: true}
        task: classification
        optimizer: {type: sgd, lr: 1.0}
    """

    def __init__(
        self,
        examples: Count = 4000,
        features: Width = 123,
        nnz: Count = 14,
        positive: Fraction = 0.24,
        sharpness: Positive = 6.0,
        val: Fraction = 0.0,
        test: Fraction = 0.5,
    ) -> None:
        if nnz > features:
            raise ValueError(f"nnz: a row has only {features} entries, not {nnz}")
        if positive == 0:
            raise ValueError("positive: must be above 0")
        check_shares(val, test)
        self.examples = examples
        self.features = features
        self.nnz = nnz
        self.positive = positive
        self.sharpness = sharpness
        self.val = val
        self.test = test

    def load(self, seed: int) -> dict[str, Split]:
        generator = numpy_generator(seed, "sparse_binary")
        chances = np.log(1.0 / np.arange(1, self.features + 1))
        keys = chances + generator.gumbel(size=(self.examples, self.features))  # the largest: drawn without replacement
        ones = np.argpartition(-keys, self.nnz - 1, axis=1)[:, : self.nnz]
        x = np.zeros((self.examples, self.features))
        np.put_along_axis(x, ones, 1 / np.sqrt(self.nnz), axis=1)
        scores = self.sharpness * (x @ generator.normal(size=self.features))
        probability = _sigmoid(scores + _offset(scores, self.positive))
        labels = (generator.random(self.examples) < probability).astype(np.int64)
        arrays = {"x": torch.from_numpy(x).float(), "y": torch.from_numpy(labels)}
        self.facts = classification_facts([self.features], ["0", "1"])
        return {**tensor_splits(arrays, shuffled_rows(self.examples, self.val, self.test, seed))}


def _sigmoid(x: np.ndarray) -> np.ndarray:
    values: np.ndarray = 0.5 * (1 + np.tanh(x / 2))
    return values


def _offset(scores: np.ndarray, share: float) -> float:
    """b with mean sigmoid(scores + b) = share, by bisection."""
    low, high = -1e3, 1e3
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _sigmoid(scores + middle).mean() < share else (low, middle)
    return (low + high) / 2
