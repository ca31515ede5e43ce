"""How strong an unmeasured confounder would have to be."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from raycipe.framework.arguments import Fraction, Range
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register


@register
class Sensitivity(Measure):
    """Bounds an average effect against a confounder that nobody measured.

    |bias| <= |rho| sqrt(E[(Y - m_A)^2] E[alpha^2] cf_y cf_d / (1 - cf_d)), alpha = A / e - (1 - A) / (1 - e): cf_y is
    the share of the outcome's residual variance that the confounder explains, cf_d the share that it would add to the
    variance of the weights alpha. `robustness` is the common share at which the bound reaches the estimate,
    `robustness_interval` that at which it reaches the near end of the interval.

    Args:
        cf_y: of the outcome
        cf_d: of the treatment
        rho: correlation of the two parts of the bias; 1 is the worst

    Reference:
        V. Chernozhukov, C. Cinelli, W. Newey, A. Sharma, V. Syrgkanis, Long Story Short: Omitted Variable Bias in
        Causal Machine Learning, 2022.

    Recipe:
        data: {type: causal_dgp, name: dgp5, examples: 300}
        estimator: gbayes_causal
        measures: [{type: sensitivity, cf_y: 0.1, cf_d: 0.1}]
    """

    needs: ClassVar[tuple[str, ...]] = ("estimator",)
    reports: ClassVar[tuple[str, ...]] = (
        *("bias", "estimate_low", "estimate_high", "low", "high", "robustness", "robustness_interval"),
    )

    def __init__(
        self, cf_y: Fraction = 0.03, cf_d: Fraction = 0.03, rho: Annotated[float, Range(ge=0, le=1)] = 1.0
    ) -> None:
        self.cf_y = cf_y
        self.cf_d = cf_d
        self.rho = rho

    def measure(self, trained: Trained) -> Measured:
        estimator = trained.estimator
        if getattr(getattr(estimator, "estimand_", None), "type_name", "") != "ate" or estimator.loss_.words:
            raise Skipped("the bound is for an average effect (estimand ate)")
        fit = estimator.fits_[0]
        a, y = fit.sample.treatment, fit.sample.y
        e, m0, m1 = (fit.eta[name] for name in ("e", "m0", "m1"))
        scale = bias_scale(y, a, e, m0, m1)
        bias = self.rho * scale * strength(self.cf_y, self.cf_d)
        seen = estimator.summary()
        theta, low, high = seen["estimate"], seen["low"], seen["high"]
        near = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        return Measured(
            values={
                "bias": bias,
                "estimate_low": theta - bias,
                "estimate_high": theta + bias,
                "low": low - bias,
                "high": high + bias,
                "robustness": robustness(abs(theta), self.rho * scale),
                "robustness_interval": robustness(near, self.rho * scale),
            },
            figures={"contours": lambda: draw(theta, self.rho * scale, (self.cf_y, self.cf_d))},
        )


def bias_scale(y: np.ndarray, a: np.ndarray, e: np.ndarray, m0: np.ndarray, m1: np.ndarray) -> float:
    """sqrt(E[(Y - m_A)^2] E[alpha^2]), with E[alpha^2] by its own orthogonal score 2 (1/e + 1/(1-e)) - alpha^2."""
    residual = y - np.where(a == 1, m1, m0)
    alpha = a / e - (1 - a) / (1 - e)
    second = float((2 * (1 / e + 1 / (1 - e)) - alpha**2).mean())
    return float(np.sqrt((residual**2).mean() * max(second, float(np.finfo(float).tiny))))


def strength(cf_y: Any, cf_d: Any) -> Any:
    return np.sqrt(cf_y * cf_d / (1 - cf_d))


def robustness(size: float, scale: float) -> float:
    """The cf with scale cf / sqrt(1 - cf) = size."""
    if scale == 0:
        return 1.0
    q = (size / scale) ** 2
    return float(0.5 * (np.sqrt(q**2 + 4 * q) - q))


def draw(theta: float, scale: float, here: tuple[float, float]) -> Any:
    """The estimate less the bound (towards 0), over both shares."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 4.0), layout="constrained")
    axes = figure.subplots()
    most = max(0.3, 1.5 * max(here))
    shares = np.linspace(0, min(most, 0.95), 120)
    left = abs(theta) - scale * strength(shares[:, None], shares[None, :])
    lines = axes.contour(shares, shares, left, levels=10, cmap="viridis")
    axes.clabel(lines, fontsize=7)
    axes.contour(shares, shares, left, levels=[0.0], colors="#f58518", linewidths=2)
    axes.plot([here[1]], [here[0]], "o", color="black")
    axes.set(xlabel="cf_d: share of the treatment", ylabel="cf_y: share of the outcome")
    axes.set_title("what is left of the effect (orange: nothing)", fontsize=10)
    return figure
