"""Linear regression whose directions matter less and less."""

from __future__ import annotations

import numpy as np
import torch

from raycipe.components.data._splits import regression_facts
from raycipe.framework.arguments import Count, NonNegative, Width
from raycipe.framework.contracts import Data, Split, TensorSplit
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class PowerlawRegression(Data):
    """Linear regression with a spectrum that decays slowly, and a risk that is known exactly.

    x ~ N(0, diag(lambda)) with lambda_i proportional to i^-eig_decay and sum 1, y = x·w* + noise · N(0, 1) with w*_i
    proportional to i^-coef_decay and |w*| = 1, in float32. A run that sees each example once sees fresh samples, and
    its excess risk goes down as their number to the power -1/2, where well-conditioned data give -1. The facts
    `true_weights` and `feature_variances` let the measure `excess_risk` compute that risk in closed form.

    Args:
        examples: training examples
        test: test examples, drawn independently; 0 for no such split
        features: d, the length of x
        eig_decay: how fast the variances of the features fall
        coef_decay: how fast the true weights fall
        noise: standard deviation of what x cannot explain

    Reference:
        A. Caponnetto, E. De Vito, Optimal Rates for the Regularized Least-Squares Algorithm, 2007.

    Recipe:
        data: {type: powerlaw_regression, examples: 4096, features: 64}
        model: {type: linear, bias: false, zero_init: true}
        task: regression
        optimizer: {type: sgd, lr: 0.2}
        train: {epochs: 1, batch_size: 16}
    """

    def __init__(
        self,
        examples: Count = 16384,
        test: int = 0,
        features: Width = 256,
        eig_decay: NonNegative = 1.0,
        coef_decay: NonNegative = 0.55,
        noise: NonNegative = 0.5,
    ) -> None:
        if test < 0:
            raise ValueError(f"test: must be >= 0, not {test}")
        self.examples = examples
        self.test = test
        self.features = features
        self.eig_decay = eig_decay
        self.coef_decay = coef_decay
        self.noise = noise

    def load(self, seed: int) -> dict[str, Split]:
        places = np.arange(1, self.features + 1, dtype=np.float64)
        variances, weights = places**-self.eig_decay, places**-self.coef_decay
        variances /= variances.sum()
        weights /= np.linalg.norm(weights)
        self.facts = {
            **regression_facts([self.features], 1),
            "true_weights": weights.tolist(),
            "feature_variances": variances.tolist(),
        }
        counts = {"train": self.examples, **({"test": self.test} if self.test else {})}
        return {name: self._drawn(name, count, seed, variances, weights) for name, count in counts.items()}

    def _drawn(self, name: str, count: int, seed: int, variances: np.ndarray, weights: np.ndarray) -> TensorSplit:
        generator = numpy_generator(seed, f"powerlaw_regression/{name}")
        x = generator.normal(size=(count, self.features)) * np.sqrt(variances)
        y = x @ weights + self.noise * generator.normal(size=count)
        return TensorSplit({"x": torch.from_numpy(x).float(), "y": torch.from_numpy(y).float().unsqueeze(1)})
