"""Pictures of causal fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from raycipe.components.estimators._causal_fit import Fit
    from raycipe.components.estimators.gbayes_causal import GbayesCausal

BLUE, ORANGE, GREY = "#4c78a8", "#f58518", "0.6"
MOST_SLICES = 6


def _axes(rows: int = 1, columns: int = 1, size: tuple[float, float] = (5.5, 3.8)) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def posterior(estimator: GbayesCausal) -> Any:
    """The prior and the posterior of a scalar, its interval, and the truth where it is known."""
    from raycipe.components.estimators import _causal_report as report

    figure, ((axes,),) = _axes()
    number = report.one_number(estimator)
    assert number is not None
    draws = np.concatenate([fit.solution.draws[:, 0] for fit in estimator.fits_])
    reach = 4 * number.sd
    at = np.linspace(number.mean - reach, number.mean + reach, 400)
    axes.hist(draws, bins=60, range=(at[0], at[-1]), density=True, color=BLUE, alpha=0.5, label="posterior")
    density = estimator.fits_[0].density
    log_prior = density.log_density(at[:, None])
    prior = np.exp(log_prior - log_prior.max())
    height = axes.get_ylim()[1]
    axes.plot(at, prior * 0.5 * height, color=GREY, linestyle="--", label="prior (its own scale)")
    axes.axvspan(number.low, number.high, color=BLUE, alpha=0.12, label=f"{estimator.level:.0%} credible")
    axes.axvline(number.mean, color=BLUE)
    true = report.truth_of(estimator)
    if true is not None:
        axes.axvline(true, color=ORANGE, label="truth")
    axes.set(xlabel=estimator.loss_.words or estimator.estimand_.words, ylabel="density", xlim=(at[0], at[-1]))
    axes.legend(frameon=False, fontsize=8)
    return figure


def overlap(fit: Fit) -> Any:
    """Histograms of the estimated propensities of both arms, mirrored."""
    figure, ((axes,),) = _axes()
    name = "e" if "e" in fit.raw else "z"
    chosen = fit.sample.treatment if name == "e" else fit.sample.instrument
    assert chosen is not None and fit.overlap is not None
    bins = np.linspace(0, 1, 41)
    for value, sign, color, label in ((1, 1, ORANGE, "chosen"), (0, -1, BLUE, "not chosen")):
        heights, _ = np.histogram(fit.raw[name][chosen == value], bins)
        axes.bar(bins[:-1], sign * heights, width=np.diff(bins), align="edge", color=color, label=label)
    axes.axhline(0, color="black", linewidth=0.8)
    seen = fit.overlap
    title = (
        f"overlap: {seen.verdict}; {seen.clipped:.1%} clipped, sizes {seen.ess_control:.0f} / {seen.ess_treated:.0f}"
    )
    axes.set_title(title, fontsize=10)
    axes.set(xlabel="estimated probability", ylabel="rows", xlim=(0, 1))
    axes.legend(frameon=False, fontsize=8)
    return figure


def effects(estimator: GbayesCausal) -> Any:
    """The effects of all rows, sorted, with pointwise intervals, and the truth where it is known."""
    figure, ((axes,),) = _axes()
    sample = estimator.fits_[0].sample
    rows = np.linspace(0, len(sample) - 1, min(500, len(sample))).astype(np.int64)
    mean = estimator.predict(sample.X[rows])
    low, high = estimator.interval(sample.X[rows])
    order = np.argsort(mean)
    share = np.linspace(0, 1, len(rows))
    true = sample.true_effect
    if true is not None and not estimator.loss_.words:
        axes.plot(share, true[rows][order], ".", color=ORANGE, markersize=3, label="truth")
    axes.fill_between(share, low[order], high[order], color=BLUE, alpha=0.25, label=f"{estimator.level:.0%} pointwise")
    axes.plot(share, mean[order], color=BLUE, label="posterior mean")
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(xlabel="share of rows, by effect", ylabel=estimator.loss_.words or "effect")
    axes.legend(frameon=False, fontsize=8)
    return figure


def slices(estimator: GbayesCausal) -> Any:
    """The effect along each covariate, the others at their medians, on the central 95 %."""
    X = estimator.fits_[0].sample.X
    count = min(MOST_SLICES, X.shape[1])
    figure, axes = _axes(1, count, (2.6 * count + 0.6, 2.8))
    for column in range(count):
        low, high = np.quantile(X[:, column], [0.025, 0.975])
        at = np.linspace(low, high, 60)
        points = np.tile(np.median(X, axis=0), (60, 1))
        points[:, column] = at
        bottom, top = estimator.interval(points)
        here = axes[0, column]
        here.fill_between(at, bottom, top, color=BLUE, alpha=0.25)
        here.plot(at, estimator.predict(points), color=BLUE)
        here.set(xlabel=f"x{column + 1}", ylabel="effect" if column == 0 else "")
    return figure


def curve_rows(estimator: GbayesCausal) -> list[dict[str, Any]]:
    """The dose-response curve with pointwise intervals."""
    low, high = np.quantile(estimator.fits_[0].sample.treatment, [0.05, 0.95])
    at = np.linspace(low, high, getattr(estimator.estimand_, "points", 21))
    mean = estimator.predict(at[:, None])
    bottom, top = estimator.interval(at[:, None])
    columns = zip(at, mean, bottom, top, strict=True)
    return [
        {"treatment": float(a), "estimate": float(m), "low": float(lo), "high": float(hi)} for a, m, lo, hi in columns
    ]


def curve(estimator: GbayesCausal) -> Any:
    figure, ((axes,),) = _axes()
    rows = curve_rows(estimator)
    at = [row["treatment"] for row in rows]
    axes.fill_between(at, [row["low"] for row in rows], [row["high"] for row in rows], color=BLUE, alpha=0.25)
    axes.plot(at, [row["estimate"] for row in rows], color=BLUE)
    axes.set(xlabel="treatment a", ylabel="E[Y(a)]")
    axes.set_title(f"posterior mean and {estimator.level:.0%} pointwise intervals", fontsize=10)
    return figure


def groups(rows: Sequence[Mapping[str, Any]], level: float) -> Any:
    figure, ((axes,),) = _axes(size=(5.5, 1.4 + 0.45 * len(rows)))
    for number, row in enumerate(rows):
        axes.plot([row["low"], row["high"]], [number, number], color=BLUE, linewidth=2)
        axes.plot([row["estimate"]], [number], "o", color=BLUE)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [str(row["group"]) for row in rows])
    axes.set(xlabel=f"mean effect, {level:.0%} credible intervals", ylim=(len(rows) - 0.5, -0.5))
    return figure
