"""Gaussian clusters."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch

from raycipe.components.data._splits import check_shares, classification_facts, shuffled_rows, tensor_splits
from raycipe.framework.arguments import Count, Fraction, NonNegative, Range, Width
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class SyntheticClassification(Data):
    """Gaussian clusters, one a class, with a known difficulty.

    The class centres are c_k = separation · u_k with u_k uniform on the unit sphere; y is uniform over the classes and
    x ~ N(c_y, I_d).

    Args:
        examples: how many examples are drawn, over all splits
        features: d, the length of x
        classes: number of classes
        separation: distance of each class centre from the origin, in standard deviations; larger is easier
        label_noise: share of the examples whose label is drawn anew, uniformly over the classes
        val: share held out for choosing; 0 for no such split
        test: share held out for the final figure; 0 for no such split

    Recipe:
        data: {type: synthetic_classification, classes: 3, separation: 3}
        model: linear
        task: classification
        optimizer: {type: sgd, lr: 0.1}
    """

    def __init__(
        self,
        examples: Count = 1000,
        features: Width = 10,
        classes: Annotated[int, Range(ge=2, le=10**6)] = 2,
        separation: NonNegative = 2.0,
        label_noise: Fraction = 0.0,
        val: Fraction = 0.1,
        test: Fraction = 0.2,
    ) -> None:
        check_shares(val, test)
        self.examples = examples
        self.features = features
        self.classes = classes
        self.separation = separation
        self.label_noise = label_noise
        self.val = val
        self.test = test

    def load(self, seed: int) -> dict[str, Split]:
        generator = numpy_generator(seed, "synthetic_classification")
        directions = generator.normal(size=(self.classes, self.features))
        centres = self.separation * directions / np.linalg.norm(directions, axis=1, keepdims=True)
        labels = generator.integers(self.classes, size=self.examples)
        x = centres[labels] + generator.normal(size=(self.examples, self.features))
        redrawn = generator.random(self.examples) < self.label_noise
        labels = np.where(redrawn, generator.integers(self.classes, size=self.examples), labels)
        arrays = {"x": torch.from_numpy(x).float(), "y": torch.from_numpy(labels).long()}
        self.facts = classification_facts([self.features], [str(label) for label in range(self.classes)])
        return {**tensor_splits(arrays, shuffled_rows(self.examples, self.val, self.test, seed))}
