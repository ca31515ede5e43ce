"""Whether the arms of a study can be compared."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from raycipe.components.estimators._causal_sample import arm_weights
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register

VERDICTS = {"none": 0.0, "weak": 1.0, "ok": 2.0}
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
SHOWN = 30  # covariates of the picture, the least balanced ones
BALANCED = 0.1  # standardized difference that people call balanced


@register
class OverlapAudit(Measure):
    """How well the treated and the untreated overlap, and whether weighting balances their covariates.

    From the propensities of a causal estimator: their quantiles, the share that had to be clipped, the effective sample
    sizes (sum w)^2 / sum w^2 of the weights with which the estimand counts each arm, and for each covariate the
    difference of the arms' means in pooled deviations, before and after weighting. `verdict` is 2 (ok),
    1 (weak: over 5 % clipped, or fewer than 60 effective rows in an arm) or 0 (none: over 10 %, or fewer than 30).

    Reference:
        P. C. Austin, Balance Diagnostics for Comparing the Distribution of Baseline Covariates Between Treatment
        Groups, Statistics in Medicine 2009.

    Recipe:
        data: {type: causal_dgp, name: dgp5, examples: 300}
        estimator: gbayes_causal
        measures: [overlap_audit]
    """

    needs: ClassVar[tuple[str, ...]] = ("estimator",)
    reports: ClassVar[tuple[str, ...]] = (
        *("verdict", "clipped", "ess_control", "ess_treated", "largest_weight"),
        *("difference_before", "difference_after"),
    )

    def measure(self, trained: Trained) -> Measured:
        fits = getattr(trained.estimator, "fits_", None)
        if not fits or fits[0].overlap is None:
            raise Skipped("the estimator has no propensities")
        fit = fits[0]
        name = "e" if "e" in fit.raw else "z"
        chosen = fit.sample.treatment if name == "e" else fit.sample.instrument
        level = getattr(trained.estimator.estimand_, "level", None)
        chosen = chosen if level is None else (fit.sample.treatment == level).astype(np.float64)
        e = np.clip(fit.eta[name], 1e-12, 1 - 1e-12)
        control, treated = arm_weights(e, trained.estimator.estimand_.type_name)
        weights = np.where(chosen == 1, treated, control)
        names = trained.facts.get("feature_names") or [f"x{k + 1}" for k in range(fit.sample.X.shape[1])]
        before = standardized_differences(fit.sample.X, chosen, np.ones(len(chosen)))
        after = standardized_differences(fit.sample.X, chosen, weights)
        rows = [
            {"covariate": str(each), "before": float(b), "after": float(a)}
            for each, b, a in zip(names, before, after, strict=True)
        ]
        arms = [("control", fit.raw[name][chosen == 0]), ("treated", fit.raw[name][chosen == 1])]
        quantiles = [{"quantile": q, **{arm: float(np.quantile(values, q)) for arm, values in arms}} for q in QUANTILES]
        seen = fit.overlap
        return Measured(
            values={
                "verdict": VERDICTS[seen.verdict],
                "clipped": seen.clipped,
                "ess_control": seen.ess_control,
                "ess_treated": seen.ess_treated,
                "largest_weight": float(weights.max() / weights.mean()),
                "difference_before": float(np.abs(before).max()),
                "difference_after": float(np.abs(after).max()),
            },
            tables={"balance": rows, "propensities": quantiles},
            figures={"balance": lambda: draw(rows)},
        )


def standardized_differences(X: np.ndarray, chosen: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(mean of the chosen - mean of the others) / pooled unweighted deviation, weighted means, (d,)."""
    arms = [chosen == value for value in (0, 1)]
    low, high = (np.average(X[arm], axis=0, weights=weights[arm]) for arm in arms)
    pooled = np.sqrt(0.5 * (X[arms[0]].var(axis=0) + X[arms[1]].var(axis=0)))
    difference: np.ndarray = (high - low) / np.where(pooled > 0, pooled, 1.0)
    return difference


def draw(rows: list[dict[str, Any]]) -> Any:
    """Differences before and after weighting, the largest first."""
    from matplotlib.figure import Figure

    shown = sorted(rows, key=lambda row: -abs(row["before"]))[:SHOWN]
    figure = Figure(figsize=(5.5, 1.4 + 0.28 * len(shown)), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(-BALANCED, BALANCED, color="0.92")
    at = range(len(shown))
    axes.plot([row["before"] for row in shown], at, "o", color="#f58518", label="before weighting")
    axes.plot([row["after"] for row in shown], at, "o", color="#4c78a8", label="after weighting")
    axes.set_yticks(list(at), [row["covariate"] for row in shown], fontsize=8)
    axes.set(xlabel="difference of the arms' means in deviations", ylim=(len(shown) - 0.5, -0.5))
    axes.legend(frameon=False, fontsize=8)
    return figure
