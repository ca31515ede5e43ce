"""A prior over effects that are linear in given features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from raycipe.components.priors import _functions as functions
from raycipe.components.priors._densities import Whitened
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Density, Prior
from raycipe.framework.registry import register


@register
class Linear(Prior):
    """The effect is linear in features of the covariates, with independent normal coefficients.

    The covariates are standardized inside, and constant and doubled ones are left out; the constant has a prior
    deviation of 10 sd(y).

    Args:
        features: identity takes the covariates, poly2 their squares and products too, spline cubic B-splines of each
        sd: prior deviation of each coefficient, in units of y per standard deviation; auto takes sd(y) / 2

    Recipe:
        data: {type: causal_dgp, name: dgp2, examples: 300}
        estimator: {type: gbayes_causal, estimand: cate, loss: r, prior: {type: linear, features: poly2}}
    """

    is_function = True

    def __init__(
        self, features: Literal["identity", "poly2", "spline"] = "identity", sd: Positive | Literal["auto"] = "auto"
    ) -> None:
        self.features = features
        self.sd = sd

    def bind(self, covariates: np.ndarray, y: np.ndarray, seed: int) -> Density:
        scaled = functions.scaler(covariates)
        Z, sd_y = scaled(covariates), float(y.std())
        sd = functions.LINEAR_SD * sd_y if self.sd == "auto" else float(self.sd)
        maps = {"identity": _identity, "poly2": _poly2, "spline": _spline}[self.features](Z)

        def basis(rows: np.ndarray) -> np.ndarray:
            constant = np.full((len(rows), 1), functions.CONSTANT_SD * sd_y)
            return np.concatenate([constant, sd * maps(scaled(rows))], axis=1)

        return Whitened(basis(covariates[:1]).shape[1], basis)


def _identity(Z: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: rows


def _poly2(Z: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    from sklearn.preprocessing import PolynomialFeatures

    fitted = PolynomialFeatures(2, include_bias=False).fit(Z)
    return lambda rows: np.asarray(fitted.transform(rows))


def _spline(Z: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    from sklearn.preprocessing import SplineTransformer

    fitted = SplineTransformer(n_knots=5, degree=3, knots="quantile", include_bias=False, extrapolation="linear").fit(Z)
    return lambda rows: np.asarray(fitted.transform(rows))
