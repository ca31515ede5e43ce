"""A Gaussian process prior by random Fourier features."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from raycipe.components.priors import _functions as functions
from raycipe.components.priors._densities import Whitened
from raycipe.framework.arguments import Positive, Range
from raycipe.framework.contracts import Density, Prior
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class RandomFeatures(Prior):
    """The effect is nearly a Gaussian process: cosines at frequencies drawn from the kernel's spectrum.

    It costs the same everywhere in x, and unlike inducing rows it keeps its variance away from the data.

    Args:
        kernel: of the process, from smooth (rbf) to rough (matern32)
        n_features: cosines and sines; more come closer to the process
        lengthscale: in standard deviations of a covariate; auto takes sqrt(2) times the median distance of two rows
        variance: of the process, in squared units of y; auto takes (sd(y) / 2)^2
        mean: the trend: a constant with a prior deviation of 10 sd(y), and linear terms with sd(y) / 2 each

    Reference:
        A. Rahimi, B. Recht, Random Features for Large-Scale Kernel Machines, NIPS 2007.

    Recipe:
        data: {type: causal_dgp, name: dgp4, examples: 300}
        estimator: {type: gbayes_causal, estimand: cate, prior: {type: random_features, n_features: 100}}
    """

    is_function = True

    def __init__(
        self,
        kernel: functions.Kernel = "matern52",
        n_features: Annotated[int, Range(ge=2, le=10**5)] = 300,
        lengthscale: Positive | Literal["auto"] = "auto",
        variance: Positive | Literal["auto"] = "auto",
        mean: Literal["zero", "constant", "linear"] = "linear",
    ) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.lengthscale = lengthscale
        self.variance = variance
        self.mean = mean

    def bind(self, covariates: np.ndarray, y: np.ndarray, seed: int) -> Density:
        generator = numpy_generator(seed, "random_features")
        scaled = functions.scaler(covariates)
        Z, sd_y = scaled(covariates), float(y.std())
        length = functions.median_distance(Z, generator) if self.lengthscale == "auto" else float(self.lengthscale)
        sd = functions.KERNEL_SD * sd_y if self.variance == "auto" else float(self.variance) ** 0.5
        waves = functions.fourier(self.kernel, Z.shape[1], self.n_features, length, sd, generator)
        trend = functions.trend(self.mean, sd_y)

        def basis(rows: np.ndarray) -> np.ndarray:
            standard = scaled(rows)
            return np.concatenate([trend(standard), waves(standard)], axis=1)

        return Whitened(basis(covariates[:1]).shape[1], basis)
