"""Two Gaussian clouds with known ranking risk."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import torch

from raycipe.components.data._noise import standard_noise
from raycipe.components.data._splits import classification_facts
from raycipe.framework.arguments import Count, NonNegative, Positive, Range, Width
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class GaussAuc(Data):
    """Two classes of one covariance around opposite means, whose best linear ranking is known in closed form.

    x = s m + Sigma^1/2 xi with s = 1 (y = 1) with probability p, else -1 (y = 0); Sigma = diag(lambda),
    lambda_i ~ i^-eig_decay with sum 1, m_i ~ i^-mean_decay with |m| = mean_norm. The least possible value of
    `auc_saddle` and the weights that reach it stand in the facts (`population`).

    Args:
        examples: size of the training split
        test: size of the test split, drawn from a stream of its own
        dim: length of x
        positive: p, the probability of class 1
        eig_decay: how fast the variances fall
        mean_decay: how fast the means fall
        mean_norm: |m|; larger means make the ranking easier
        tail: distribution of xi: gauss, or student3, heavy tails of the same variance

    Recipe:
        data: {type: gauss_auc, examples: 512}
        model: {type: linear, num_outputs: 1, bias: false, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 0.02}
        train: {epochs: 1, batch_size: 1}
    """

    def __init__(
        self,
        examples: Count = 1000,
        test: Count = 1000,
        dim: Width = 64,
        positive: Annotated[float, Range(gt=0, lt=1)] = 0.3,
        eig_decay: NonNegative = 1.0,
        mean_decay: NonNegative = 1.05,
        mean_norm: Positive = 0.35,
        tail: Literal["gauss", "student3"] = "gauss",
    ) -> None:
        self.examples = examples
        self.test = test
        self.dim = dim
        self.positive = positive
        self.eig_decay = eig_decay
        self.mean_decay = mean_decay
        self.mean_norm = mean_norm
        self.tail = tail

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """(m, lambda), each (dim,)."""
        order = np.arange(1, self.dim + 1, dtype=np.float64)
        mean, variances = order**-self.mean_decay, order**-self.eig_decay
        return self.mean_norm * mean / np.linalg.norm(mean), variances / variances.sum()

    def load(self, seed: int) -> dict[str, Split]:
        mean, variances = self.moments()
        facts: dict[str, Any] = classification_facts([self.dim], ["0", "1"])
        facts["population"] = {"positive": self.positive, "mean": mean.tolist(), "variances": variances.tolist()}
        self.facts = facts
        return {
            name: self._draw(numpy_generator(seed, "gauss_auc", number), count, mean, variances)
            for number, (name, count) in enumerate((("train", self.examples), ("test", self.test)))
        }

    def _draw(self, generator: np.random.Generator, count: int, mean: np.ndarray, variances: np.ndarray) -> Split:
        y = (generator.random(count) < self.positive).astype(np.int64)
        noise = standard_noise(generator, self.tail, (count, self.dim))
        x = (2 * y - 1)[:, None] * mean + np.sqrt(variances) * noise
        return TensorSplit({"x": torch.from_numpy(x).float(), "y": torch.from_numpy(y)})
