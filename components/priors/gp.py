"""A Gaussian process prior over effects."""

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
class Gp(Prior):
    """The effect is a Gaussian process, written in the kernel functions of inducing rows (Nyström).

    g(x) = trend(x) + K_xm chol(K_mm)^-T beta with beta ~ N(0, I). The covariates are standardized inside, and constant
    and doubled ones are left out. With as many inducing rows as data the process is exact at the data's rows; far from
    the inducing rows the variance falls to that of the trend.

    Args:
        kernel: of the process, from smooth (rbf) to rough (matern32)
        lengthscale: in standard deviations of a covariate; auto takes sqrt(2) times the median distance of two rows
        variance: of the process, in squared units of y; auto takes (sd(y) / 2)^2
        mean: the trend: a constant with a prior deviation of 10 sd(y), and linear terms with sd(y) / 2 each
        inducing: rows whose kernel functions are the basis, chosen far from each other; more are finer and slower

    Reference:
        C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006.

    Recipe:
        data: {type: causal_dgp, name: dgp4, examples: 300}
        estimator: {type: gbayes_causal, estimand: cate, prior: {type: gp, kernel: matern52, inducing: 40}}
    """

    is_function = True

    def __init__(
        self,
        kernel: functions.Kernel = "matern52",
        lengthscale: Positive | Literal["auto"] = "auto",
        variance: Positive | Literal["auto"] = "auto",
        mean: Literal["zero", "constant", "linear"] = "linear",
        inducing: Annotated[int, Range(ge=1, le=5000)] = 100,
    ) -> None:
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.variance = variance
        self.mean = mean
        self.inducing = inducing

    def bind(self, covariates: np.ndarray, y: np.ndarray, seed: int) -> Density:
        generator = numpy_generator(seed, "gp")
        scaled = functions.scaler(covariates)
        Z, sd_y = scaled(covariates), float(y.std())
        length = functions.median_distance(Z, generator) if self.lengthscale == "auto" else float(self.lengthscale)
        sd = functions.KERNEL_SD * sd_y if self.variance == "auto" else float(self.variance) ** 0.5
        process = functions.nystroem(self.kernel, functions.spread_out(Z, self.inducing, generator), length, sd)
        trend = functions.trend(self.mean, sd_y)

        def basis(rows: np.ndarray) -> np.ndarray:
            standard = scaled(rows)
            return np.concatenate([trend(standard), process(standard)], axis=1)

        return Whitened(basis(covariates[:1]).shape[1], basis)
