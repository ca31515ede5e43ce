"""Two classes, one of them rare."""

from __future__ import annotations

from typing import Annotated

import torch

from raycipe.components.data._splits import check_shares, classification_facts, shuffled_rows, tensor_splits
from raycipe.framework.arguments import Count, Fraction, NonNegative, Range, Width
from raycipe.framework.contracts import Data, Split
from raycipe.framework.registry import register
from raycipe.framework.streams import key


@register
class Imbalanced(Data):
    """Clusters at the corners of a cube, two a class, of which the positive class has few examples.

    The informative features are normal around a corner of a cube of side 2 separation, mixed by a random matrix in each
    cluster; redundant ones are random combinations of them, the rest is noise. Class 1, `positive`, is the rare one.

    Args:
        examples: how many examples are drawn, over all splits
        features: d, the length of x
        informative: features that tell the classes apart
        positives: share of the positive class
        separation: half the side of the cube; larger is easier
        label_noise: share of the examples whose label is drawn anew
        val: share held out for choosing; 0 for no such split
        test: share held out for the final figure; 0 for no such split

    Reference:
        I. Guyon, Design of Experiments for the NIPS 2003 Variable Selection Benchmark, 2003.

    Recipe:
        data: {type: imbalanced, examples: 2000, positives: 0.1}
        estimator: {type: zboost, rounds: 50}
    """

    def __init__(
        self,
        examples: Count = 20_000,
        features: Width = 20,
        informative: Annotated[int, Range(ge=2, le=1000)] = 8,
        positives: Annotated[float, Range(gt=0, le=0.5)] = 0.02,
        separation: NonNegative = 1.0,
        label_noise: Fraction = 0.005,
        val: Fraction = 0.1,
        test: Fraction = 0.3,
    ) -> None:
        check_shares(val, test)
        if informative > features:
            raise ValueError(f"informative: {informative} of {features} features")
        self.examples = examples
        self.features = features
        self.informative = informative
        self.positives = positives
        self.separation = separation
        self.label_noise = label_noise
        self.val = val
        self.test = test

    def load(self, seed: int) -> dict[str, Split]:
        from sklearn.datasets import make_classification

        x, y = make_classification(
            n_samples=self.examples,
            n_features=self.features,
            n_informative=self.informative,
            n_redundant=min(2, self.features - self.informative),
            weights=[1 - self.positives],
            class_sep=self.separation,
            flip_y=self.label_noise,
            random_state=key(seed, "imbalanced") % 2**32,
        )
        self.facts = classification_facts([self.features], ["negative", "positive"])
        arrays = {"x": torch.from_numpy(x).float(), "y": torch.from_numpy(y).long()}
        return {**tensor_splits(arrays, shuffled_rows(self.examples, self.val, self.test, seed))}
