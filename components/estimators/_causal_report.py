"""What a causal fit reports: figures, doubts, pictures, and a page in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raycipe.components.estimators import _causal_figures as figures
from raycipe.components.estimators import _causal_summary as summary
from raycipe.components.estimators._causal_fit import Fit, Parts, anderson_rubin, weak_instrument
from raycipe.components.losses._rows import Quadratic
from raycipe.components.nuisances._first_stage import RATIO
from raycipe.framework.contracts import Measured

if TYPE_CHECKING:
    from raycipe.components.estimators.gbayes_causal import GbayesCausal

Array = np.ndarray
NAMES = (
    *("estimate", "sd", "low", "high", "positive", "omega", "truth", "error", "covered", "length"),
    *("clipped", "ess_control", "ess_treated", "overlap", "instrument_strength", "ratio_clipped"),
    *("r_hat", "ess_bulk", "ess_tail", "divergences", "acceptance", "spike"),
)
VERDICTS = {"none": 0.0, "weak": 1.0, "ok": 2.0}
WEAK = 3.2  # |t| of the first stage: F = 10
MIXED, ENOUGH = 1.01, 400.0  # R-hat and effective sample size
ASSUMPTIONS = {
    "binary": "no unmeasured confounding given X; both treatments possible at every x (overlap); no interference",
    "level": "no unmeasured confounding given X; the level possible at every x (overlap); no interference",
    "continuous": "no unmeasured confounding given X; a partially linear outcome with a constant effect",
    "instrument": "the instrument is as good as random given X, acts through the treatment alone, and never deters",
    "dose": "no unmeasured confounding given X; every dose possible at every x; no interference",
}


def average(fits: Sequence[Fit]) -> tuple[list[Array], list[float]]:
    """The functional of beta (p,), and its shift, whose value is the average effect over each fit's rows."""
    functionals, shifts = [], []
    for fit in fits:
        basis, offset = fit.effect_basis(fit.sample.X)
        functionals.append(basis.mean(axis=0))
        shifts.append(float(offset.mean()))
    return functionals, shifts


def truth_of(estimator: GbayesCausal) -> float | None:
    """The true value of what is reported as the estimate, where it is known."""
    if estimator.loss_.words:
        return None
    if estimator.estimand_.type_name in ("cate", "gate"):
        known = estimator.fits_[0].sample.true_effect
        return None if known is None else float(known.mean())
    return estimator.estimand_.truth


def one_number(estimator: GbayesCausal, level: float | None = None) -> summary.Summary | None:
    """The estimate: the scalar itself, or the average of a function; none of a dose-response curve."""
    if estimator.estimand_.design == "dose":
        return None
    functionals, shifts = average(estimator.fits_)
    wanted = estimator.level if level is None else level
    return summary.summarize(estimator.fits_, functionals, shifts, wanted, estimator.combine)


def values(estimator: GbayesCausal) -> dict[str, float]:
    fit = estimator.fits_[0]
    found: dict[str, float] = {"omega": float(np.mean([each.calibrated.omega for each in estimator.fits_]))}
    number = one_number(estimator)
    if number is not None:
        found.update(estimate=number.mean, sd=number.sd, low=number.low, high=number.high, positive=number.positive)
        found["length"] = number.high - number.low
        true = truth_of(estimator)
        if true is not None:
            is_inside = number.low <= true <= number.high
            found.update(truth=true, error=number.mean - true, covered=float(is_inside))
    if fit.overlap is not None:
        seen = fit.overlap
        found.update(clipped=seen.clipped, ess_control=seen.ess_control, ess_treated=seen.ess_treated)
        found["overlap"] = VERDICTS[seen.verdict]
    if estimator.estimand_.design == "instrument":
        found["instrument_strength"] = weak_instrument(fit.problem)
    if "ratio" in fit.raw:
        ratio = fit.raw["ratio"]
        found["ratio_clipped"] = float(((ratio <= RATIO[0]) | (ratio >= RATIO[1])).mean())
    for name in fit.solution.diagnostics:
        each = [one.solution.diagnostics[name] for one in estimator.fits_]
        found[name] = float(max(each) if name in ("r_hat", "divergences") else min(each))
    return found


# ---------------------------------------------------------------------------------------------- doubts


def doubts(fits: Sequence[Fit], parts: Parts, level: float) -> list[str]:
    """What a reader must know before trusting the numbers."""
    found = []
    fit = fits[0]
    if fit.overlap is not None and fit.overlap.verdict != "ok":
        seen = fit.overlap
        words = "there is no overlap to speak of" if seen.verdict == "none" else "the arms overlap weakly"
        found.append(
            f"{words}: {seen.clipped:.1%} of propensities clipped, effective sizes of the arms "
            f"{seen.ess_control:.0f} and {seen.ess_treated:.0f}"
        )
    if parts.loss.words:
        found.append(f"the loss {parts.loss.type_name} estimates {parts.loss.words}")
    found += [each.calibrated.warning for each in fits[:1] if each.calibrated.warning]
    if parts.estimand.design == "instrument" and weak_instrument(fit.problem) < WEAK:
        sets = " and ".join(f"[{low:.4g}, {high:.4g}]" for low, high in anderson_rubin(fit.problem, level))
        strength = weak_instrument(fit.problem)
        found.append(
            f"the instrument is weak (|t| = {strength:.2f} < {WEAK}): Anderson-Rubin set at {level:.0%}: {sets}"
        )
    arms = np.unique(fit.sample.treatment, return_counts=True)[1]
    if parts.estimand.design == "binary" and arms.min() < parts.nuisance.folds:
        found.append(
            f"{len(np.unique(fit.folds))} folds instead of {parts.nuisance.folds}: an arm has {arms.min()} rows"
        )
    n, p = fit.sample.X.shape
    if n < 50 * p and len(np.unique(fit.folds)) > 1:
        found.append(f"{n} rows for {p} covariates: cross-fitting costs length of intervals here")
    found += mixing(fits)
    return found


def mixing(fits: Sequence[Fit]) -> list[str]:
    for fit in fits:
        seen = fit.solution.diagnostics
        r_hat, ess = seen.get("r_hat", 1.0), min(seen.get("ess_bulk", np.inf), seen.get("ess_tail", np.inf))
        if r_hat > MIXED or ess < ENOUGH:
            return [f"the chains have not mixed: R-hat {r_hat:.3f}, effective sample size {ess:.0f}: take more draws"]
    return []


def refuse(fits: Sequence[Fit]) -> None:
    """Raise ValueError where `strict` does not let a doubt pass."""
    for fit in fits:
        if fit.overlap is not None and fit.overlap.verdict == "none":
            raise ValueError(
                f"strict: there is no overlap: {fit.overlap.clipped:.1%} of propensities clipped, effective sizes "
                f"{fit.overlap.ess_control:.0f} and {fit.overlap.ess_treated:.0f}"
            )
    if mixing(fits):
        raise ValueError(f"strict: {mixing(fits)[0]}")


# ---------------------------------------------------------------------------------------------- all of it


def evidence(estimator: GbayesCausal) -> Measured:
    fit = estimator.fits_[0]
    drawn: dict[str, Any] = {}
    tables: dict[str, list[dict[str, Any]]] = {}
    if fit.density.size == 1:
        drawn["posterior"] = lambda: figures.posterior(estimator)
        tables["draws"] = [{"draw": float(value)} for each in estimator.fits_ for value in each.solution.draws[:, 0]]
    elif estimator.estimand_.design == "dose":
        drawn["curve"] = lambda: figures.curve(estimator)
        tables["curve"] = figures.curve_rows(estimator)
    elif estimator.estimand_.labels():
        tables["groups"] = group_rows(estimator)
        drawn["groups"] = lambda: figures.groups(tables["groups"], estimator.level)
    else:
        drawn["effects"] = lambda: figures.effects(estimator)
        drawn["slices"] = lambda: figures.slices(estimator)
    if fit.overlap is not None:
        drawn["overlap"] = lambda: figures.overlap(fit)
    scores = [{"round": number, **row} for number, each in enumerate(estimator.fits_) for row in each.nuisances.scores]
    if scores:
        tables["nuisances"] = scores
    return Measured(values(estimator), drawn, tables, {"report": page(estimator)})


def group_rows(estimator: GbayesCausal) -> list[dict[str, Any]]:
    size = estimator.fits_[0].density.size
    covariates = estimator.estimand_.covariates(estimator.fits_[0].sample)
    rows = []
    for number, label in enumerate(estimator.estimand_.labels()):
        unit = [np.eye(size)[number]] * len(estimator.fits_)
        shifts = [0.0] * len(estimator.fits_)
        seen = summary.summarize(estimator.fits_, unit, shifts, estimator.level, estimator.combine)
        row = {"group": label, "rows": int(covariates[:, number].sum()), "estimate": seen.mean, "sd": seen.sd}
        rows.append({**row, "low": seen.low, "high": seen.high, "positive": seen.positive})
    return rows


def page(estimator: GbayesCausal) -> str:
    """The report in words, doubts first."""
    estimand, fit = estimator.estimand_, estimator.fits_[0]
    n = len(fit.sample)
    lines = [f"NOTE  {note}" for note in estimator.notes_]
    lines += ["", f"Estimand: {estimator.loss_.words or estimand.words}"]
    lines.append(f"Assumes: {ASSUMPTIONS[estimand.design]}")
    kept = f" of {len(fit.folds)}" if estimator.trim == "drop" else ""
    lines.append(f"Data: {n}{kept} rows, {fit.sample.X.shape[1]} covariates, {len(np.unique(fit.folds))} folds")
    number = one_number(estimator)
    if number is not None:
        what = "Average over the rows" if fit.density.size > 1 else "Posterior mean"
        lines.append(f"{what}: {number.mean:.6g} (sd {number.sd:.4g})")
        lines.append(f"{estimator.level:.0%} credible interval: {number.low:.6g} .. {number.high:.6g}")
        lines.append(f"P(effect > 0): {number.positive:.4f}")
    if fit.density.size > 1:
        lines.append(
            "Intervals at single points hold pointwise, on average over X; no simultaneous coverage is promised."
        )
    if isinstance(fit.problem.loss, Quadratic) and fit.density.size == 1:
        lines.append(f"Estimate without a prior: {fit.problem.loss.w_phi.sum() / fit.problem.loss.w.sum():.6g}")
    normal = fit.density.normal
    if normal is not None and fit.density.size == 1:
        lines.append(f"Prior: mean {normal[0][0]:.6g}, sd {normal[1][0]:.6g}")
    lines.append(f"Learning rate: {fit.calibrated.omega:.6g} ({fit.calibrated.how})")
    if fit.overlap is not None:
        lines.append(f"Overlap: {fit.overlap.verdict}")
    if estimand.design == "instrument":
        lines.append(f"First stage: |t| = {weak_instrument(fit.problem):.2f}")
    return "\n".join(line for line in lines if line is not None).strip() + "\n"
