"""A posterior of a causal effect without a likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator

from raycipe.components.estimators import _causal_report as report
from raycipe.components.estimators import _causal_summary as summary
from raycipe.components.estimators._causal_fit import Fit, Parts, fit_once
from raycipe.components.estimators._causal_sample import Read, read
from raycipe.components.losses._rows import residuals
from raycipe.framework.arguments import Count, Range, default
from raycipe.framework.contracts import (
    Calibration,
    CausalLoss,
    Estimand,
    Estimator,
    Measured,
    Nuisance,
    Posterior,
    Prior,
)
from raycipe.framework.errors import RunError
from raycipe.framework.registry import build, make, register
from raycipe.framework.streams import key

HINTS = {
    ("ate", "r"): "the R-loss with a constant effect targets the overlap-weighted one: take estimand ato, or cate, "
    "whose estimate is the average",
}


@register
class GbayesCausal(Estimator, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Generalized Bayes for causal effects: a prior on the effect itself, updated by a loss that identifies it.

    pi(g | data) is proportional to pi(g) exp(-omega n L_n(g; eta)), with cross-fitted nuisances eta plugged in and the
    learning rate omega calibrated so that credible sets cover. `predict(X)` gives the posterior mean of the effect,
    `interval(X)`, `band(X)` and `sample(X)` the rest of it.

    Args:
        estimand: what is estimated
        loss: how it is identified
        nuisance: the first-stage models
        prior: of the effect; null takes a normal one that says nothing but the scale, for functions `gp`
        calibration: of the learning rate; null takes sandwich, for functions residual with the robust covariance
        posterior: how it is computed
        level: of credible intervals
        draws: from the posterior
        repeats: rounds of cross-fitting with other folds
        combine: how rounds are joined: mixture pools their draws, median is double machine learning's rule (scalars)
        trim: drop removes rows whose propensity leaves [clip, 1 - clip] of the loss: the estimand changes with them
        strict: too little overlap, and chains that have not mixed, are errors instead of warnings

    Reference:
        E. Javurek, D. Frauen, Y. Wang, S. Feuerriegel, Generalized Bayes for Causal Inference, 2026.

    Recipe:
        data: {type: causal_dgp, examples: 500}
        estimator:
          type: gbayes_causal
          estimand: ate
          loss: {type: dr, clip: 0.01}
          prior: {type: gaussian, mean: 0.0, sd: 1.0}
    """

    given: ClassVar[tuple[str, ...]] = ("seed",)
    reports: ClassVar[tuple[str, ...]] = report.NAMES

    def __init__(
        self,
        estimand: Estimand = default("ate"),
        loss: CausalLoss = default("dr"),
        nuisance: Nuisance = default("crossfit"),
        prior: Prior | None = None,
        calibration: Calibration | None = None,
        posterior: Posterior = default("conjugate"),
        level: Annotated[float, Range(gt=0, lt=1)] = 0.95,
        draws: Annotated[int, Range(ge=100, le=10**7)] = 2000,
        repeats: Count = 1,
        combine: Literal["mixture", "median"] = "mixture",
        trim: Literal["none", "drop"] = "none",
        strict: bool = False,
        seed: int = 0,
    ) -> None:
        self.estimand = estimand
        self.loss = loss
        self.nuisance = nuisance
        self.prior = prior
        self.calibration = calibration
        self.posterior = posterior
        self.level = level
        self.draws = draws
        self.repeats = repeats
        self.combine = combine
        self.trim = trim
        self.strict = strict
        self.seed = seed

    # ------------------------------------------------------------------------------------------ checks

    def parts(self) -> Parts:
        """The components, with the defaults that depend on the estimand. Raises ValueError for a mismatch.

        In Python an argument may be a component, its type's name, or a dict as in a recipe.
        """

        def part(name: str, kind: str) -> Any:
            return build(getattr(self, name), kind, name, {"seed": self.seed})

        estimand, loss = part("estimand", "estimands"), part("loss", "losses")
        is_function = estimand.is_function
        prior = part("prior", "priors") if self.prior else make("priors/gp" if is_function else "priors/gaussian")
        usual = "calibrations/residual" if is_function else "calibrations/sandwich"
        calibration = part("calibration", "calibrations") if self.calibration else make(usual)
        if loss.type_name not in estimand.losses:
            hint = HINTS.get((estimand.type_name, loss.type_name), f"take {', '.join(estimand.losses)}")
            raise ValueError(f"loss: {loss.type_name} does not identify {estimand.type_name}: {hint}")
        if prior.is_function != is_function:
            takes = "a prior over functions: gp, linear, random_features" if is_function else "a prior over numbers"
            raise ValueError(f"prior: {estimand.type_name} takes {takes}, not {prior.type_name}")
        if is_function and self.combine == "median" and self.repeats > 1:
            raise ValueError("combine: median joins scalars alone: take mixture")
        posterior, nuisance = part("posterior", "posteriors"), part("nuisance", "nuisances")
        reason = posterior.misfit(loss, prior, not is_function and estimand.type_name != "gate")
        if reason:
            raise ValueError(f"posterior: {reason}")
        return Parts(estimand, loss, nuisance, prior, calibration, posterior)

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        train = splits["train"]
        try:
            parts = self.parts()
            self._read(train["X"], train["y"], train, parts.estimand)
        except ValueError as error:
            argument, _, words = str(error).partition(": ")
            if argument in ("loss", "prior", "combine", "estimand", "posterior"):
                raise RunError("recipe", words, where=f"estimator.{argument}") from error
            raise RunError("data", str(error), where="estimator") from error
        parts.nuisance.check(parts.estimand.design, facts)

    def _read(self, X: Any, y: Any, roles: Mapping[str, Any], estimand: Estimand) -> Read:
        return read(X, y, roles, estimand.design, getattr(estimand, "level", None))

    # ------------------------------------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any = None, **roles: Any) -> GbayesCausal:
        """`roles`: `treatment`; where they exist `instrument`, `weights` (or `sample_weight`), `groups`, `truth`.

        `folds` (n,) may fix who is held out with whom. Raises ValueError, the role's or argument's name first.
        """
        given_folds = roles.pop("folds", None)
        if "sample_weight" in roles:
            roles["weights"] = roles.pop("sample_weight")
        parts = self.parts()
        self.estimand_, self.loss_ = parts.estimand, parts.loss
        self.feature_names_in_ = np.asarray(X.columns, dtype=object) if hasattr(X, "columns") else None
        sample, notes = self._read(X, y, roles, parts.estimand)
        self.n_features_in_ = sample.X.shape[1]
        self.notes_ = list(notes)
        self.fits_: list[Fit] = []
        for number in range(self.repeats):
            seed = self.seed if number == 0 else key(self.seed, "repeat", number)
            fit = fit_once(
                parts,
                sample,
                seed=seed,
                level=self.level,
                draws=-(-self.draws // self.repeats),
                trim=self.trim == "drop",
                folds=None if given_folds is None else np.asarray(given_folds),
                fan_out=self.fan_out,
            )
            self.fits_.append(fit)
        self.notes_ += report.doubts(self.fits_, parts, self.level)
        if self.strict:
            report.refuse(self.fits_)
        return self

    # ------------------------------------------------------------------------------------------ use

    def _rows(self, X: Any) -> np.ndarray:
        names = self.feature_names_in_
        if names is not None and hasattr(X, "columns"):
            missing = [name for name in names if name not in X.columns]
            if missing:
                raise ValueError(f"X: has no column {missing[0]}")
            X = X[list(names)]
        rows = np.asarray(X, dtype=np.float64)
        rows = rows.reshape(len(rows), -1)
        wanted = 1 if self.estimand_.design == "dose" else self.n_features_in_
        if rows.shape[1] != wanted:
            raise ValueError(f"X: has {rows.shape[1]} columns, and the fit had {wanted}")
        return rows

    def predict(self, X: Any) -> np.ndarray:
        """The posterior mean of the effect at each row, (n,); a scalar estimand gives one value n times.

        For `dose_response` X is one column of treatments.
        """
        return summary.mean_at(self.fits_, self._rows(X))

    def sample(self, X: Any, n_draws: int | None = None) -> np.ndarray:
        """Draws of the effect at each row, (n_draws, n)."""
        return summary.draws_at(self.fits_, self._rows(X), n_draws)

    def interval(self, X: Any, level: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Pointwise credible intervals, (n,) each."""
        return summary.interval_at(self.fits_, self._rows(X), self.level if level is None else level)

    def band(self, X: Any, level: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """A simultaneous band over the rows, (n,) each. Where the prior is too smooth, it fails in the tails of X."""
        return summary.band_at(self.fits_, self._rows(X), self.level if level is None else level)

    @property
    def is_function(self) -> bool:
        """Whether there is an effect for every row, instead of one for all."""
        return self.estimand_.is_function

    def summary(self) -> dict[str, float]:
        """The figures of the report."""
        return report.values(self)

    def scores(self, facts: Mapping[str, Any], X: np.ndarray, y: np.ndarray, **roles: np.ndarray) -> dict[str, float]:
        """On held-out rows: `loss`, the mean R-loss (r_Y - r_A g)^2; `rmse` of the effect where simulated data know it.

        Nothing for instruments, several levels and dose-response curves.
        """
        fit = self.fits_[0]
        if self.estimand_.design != "binary":
            return {}
        held = self._read(X, y, roles, self.estimand_).sample
        effect = summary.mean_at(self.fits_, held.X)
        found = {}
        if fit.nuisances.at is not None and not self.loss_.words:
            r_y, r_a = residuals(held.y, held.treatment, fit.nuisances.at(held.X))
            found["loss"] = float(((r_y - r_a * effect) ** 2).mean())
        if held.true_effect is not None and not self.loss_.words:
            found["rmse"] = float(np.sqrt(((effect - held.true_effect) ** 2).mean()))
        return found

    def evidence(self) -> Measured:
        return report.evidence(self)
