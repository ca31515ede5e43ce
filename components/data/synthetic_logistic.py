"""A logistic model with known weights."""

from __future__ import annotations

import numpy as np
import torch

from raycipe.components.data._splits import classification_facts
from raycipe.framework.arguments import Count, Positive, Width
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class SyntheticLogistic(Data):
    """Gaussian features whose classes follow a logistic model: the convex problem on which stability is measured.

    x ~ N(0, I_d / d), so that the mean of |x|² is 1; y ~ Bernoulli(sigmoid(signal · sqrt(d) · x·u)) with u uniform on
    the unit sphere, drawn by `seed` as everything else.

    Args:
        examples: training examples
        test: test examples, drawn independently; they also serve as the strangers of stability measures
        features: d, the length of x
        signal: standard deviation of the log-odds; larger makes the classes easier to tell

    Reference:
        D. R. Cox, The Regression Analysis of Binary Sequences, JRSS B, 1958.

    Recipe:
        data: {type: synthetic_logistic, examples: 400, features: 50}
        model: {type: linear, zero_init: true}
        task: classification
        optimizer: {type: sgd, lr: 1.0}
    """

    def __init__(self, examples: Count = 400, test: Count = 2000, features: Width = 50, signal: Positive = 3.0) -> None:
        self.examples = examples
        self.test = test
        self.features = features
        self.signal = signal

    def load(self, seed: int) -> dict[str, Split]:
        generator = numpy_generator(seed, "synthetic_logistic")
        direction = generator.normal(size=self.features)
        direction /= np.linalg.norm(direction)
        self.facts = classification_facts([self.features], ["0", "1"])
        return {name: self._drawn(generator, count, direction) for name, count in self._counts()}

    def _counts(self) -> list[tuple[str, int]]:
        return [("train", self.examples), ("test", self.test)]

    def _drawn(self, generator: np.random.Generator, count: int, direction: np.ndarray) -> TensorSplit:
        z = generator.normal(size=(count, self.features))
        chance = 0.5 * (1 + np.tanh(self.signal * (z @ direction) / 2))
        labels = (generator.random(count) < chance).astype(np.int64)
        x = torch.from_numpy(z / np.sqrt(self.features)).float()
        return TensorSplit({"x": x, "y": torch.from_numpy(labels)})
