"""First-stage models that are fitted without the rows they speak of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from raycipe.components.nuisances import _first_stage as stage
from raycipe.framework.arguments import Range, default
from raycipe.framework.contracts import Estimator, Nuisance, Nuisances, Sample
from raycipe.framework.contracts.causal import Design, FanOut
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register

Models = dict[str, Callable[[np.ndarray], np.ndarray]]


@register
class Crossfit(Nuisance):
    """Cross-fitting: the rows are cut into K parts, and each part's nuisances come from models of the other parts.

    Outcome models are fitted for each arm of its own (the T-learner), unless `t_learner` is false.

    Args:
        outcome: predicts means: of the outcome, and of a continuous treatment
        propensity: predicts probabilities of the treatment or the instrument; needs `predict_proba`
        folds: K; 1 fits and predicts on the same rows, which suits simple models alone
        stratify: each part has its share of both arms
        t_learner: one outcome model an arm; false takes one for both, with the treatment as a feature
        calibrate: isotonic corrects the probabilities on out-of-fold ones of the training rows

    Reference:
        V. Chernozhukov et al., Double/Debiased Machine Learning for Treatment and Structural Parameters, 2018.

    Recipe:
        data: {type: causal_dgp, examples: 300}
        estimator:
          type: gbayes_causal
          nuisance:
            type: crossfit
            outcome: {type: sklearn, name: Ridge, arguments: {alpha: 1.0}}
            propensity: {type: sklearn, name: LogisticRegression}
    """

    def __init__(
        self,
        outcome: Estimator = default("poly_ridge"),
        propensity: Estimator = default("poly_logistic"),
        folds: Annotated[int, Range(ge=1, le=1000)] = 5,
        stratify: bool = True,
        t_learner: bool = True,
        calibrate: Literal["none", "isotonic"] = "none",
    ) -> None:
        self.outcome = outcome
        self.propensity = propensity
        self.folds = folds
        self.stratify = stratify
        self.t_learner = t_learner
        self.calibrate = calibrate

    def check(self, design: Design, facts: Mapping[str, Any]) -> None:
        two = {"num_classes": 2, "num_outputs": 2, "class_names": ["0", "1"]}
        numbers = {name: value for name, value in facts.items() if name not in ("num_classes", "class_names")}
        self.outcome.check(numbers, {})
        if design in ("binary", "level", "instrument"):
            if not hasattr(type(self.propensity), "predict_proba") and self.propensity.type_name != "sklearn":
                words = f"{self.propensity.type_name} tells no probabilities (`predict_proba`)"
                raise RunError("recipe", words, "take poly_logistic or sklearn", "estimator.nuisance.propensity")
            self.propensity.check({**facts, **two}, {})

    def fit(
        self,
        sample: Sample,
        design: Design,
        folds: np.ndarray,
        seed: int,
        level: float = 1.0,
        fan_out: FanOut = map,
    ) -> Nuisances:
        parts = [int(part) for part in np.unique(folds)]
        work = partial(self.fit_part, sample, design, folds, level)
        values: dict[str, np.ndarray] = {}
        made: list[Models] = []
        scores = []
        for part, (found, models) in zip(parts, fan_out(work, parts), strict=True):
            held = folds == part
            for name, column in found.items():
                values.setdefault(name, np.zeros(len(sample)))[held] = column
            scores.append({"fold": part, **quality(design, sample.rows(held), found, level)})
            made += [models] if models else []

        def at(X: np.ndarray) -> dict[str, np.ndarray]:
            return {name: np.mean([models[name](X) for models in made], axis=0) for name in made[0]}

        return Nuisances(values, at if made else None, scores)

    def fit_part(
        self, sample: Sample, design: Design, folds: np.ndarray, level: float, part: int
    ) -> tuple[dict[str, np.ndarray], Models]:
        """The values of one part's rows, and the models, which have not seen them (unless there is one part only)."""
        held = folds == part
        seen = sample if held.all() else sample.rows(~held)
        if design == "dose":
            return self._dose(seen, sample.rows(held)), {}
        fit = {
            "binary": self._binary,
            "level": self._level,
            "continuous": self._continuous,
            "instrument": self._instrument,
        }
        models = fit[design](seen, level)
        return {name: model(sample.X[held]) for name, model in models.items()}, models

    def _probability(self, X: np.ndarray, chosen: np.ndarray, weights: np.ndarray | None) -> Any:
        fit = stage.isotonic if self.calibrate == "isotonic" else stage.probability_model
        return fit(self.propensity, X, chosen, weights)

    def _means(self, target: np.ndarray, arm: np.ndarray, sample: Sample) -> list[Any]:
        """The models of E[target | x, arm = 0] and of arm = 1."""
        if self.t_learner:
            arms = [sample.rows(arm == value) for value in (0, 1)]
            targets = [target[arm == value] for value in (0, 1)]
            return [
                stage.mean_model(self.outcome, each.X, values, each.weights)
                for each, values in zip(arms, targets, strict=True)
            ]
        both = stage.mean_model(self.outcome, np.column_stack([sample.X, arm]), target, sample.weights)
        return [lambda X, value=value: both(np.column_stack([X, np.full(len(X), value)])) for value in (0.0, 1.0)]

    def _binary(self, seen: Sample, level: float) -> Models:
        m0, m1 = self._means(seen.y, seen.treatment, seen)
        return {"e": self._probability(seen.X, seen.treatment, seen.weights), "m0": m0, "m1": m1}

    def _level(self, seen: Sample, level: float) -> Models:
        there = seen.treatment == level
        chosen = seen.rows(there)
        return {
            "e": self._probability(seen.X, there.astype(np.float64), seen.weights),
            "m": stage.mean_model(self.outcome, chosen.X, chosen.y, chosen.weights),
        }

    def _continuous(self, seen: Sample, level: float) -> Models:
        return {
            "a": stage.mean_model(self.outcome, seen.X, seen.treatment, seen.weights),
            "m": stage.mean_model(self.outcome, seen.X, seen.y, seen.weights),
        }

    def _instrument(self, seen: Sample, level: float) -> Models:
        z = seen.instrument
        assert z is not None  # the estimator has asked
        y0, y1 = self._means(seen.y, z, seen)
        arms = [seen.rows(z == value) for value in (0, 1)]
        a0, a1 = (self._probability(arm.X, arm.treatment, arm.weights) for arm in arms)
        return {"z": self._probability(seen.X, z, seen.weights), "y0": y0, "y1": y1, "a0": a0, "a1": a1}

    def _dose(self, seen: Sample, held: Sample) -> dict[str, np.ndarray]:
        outcome = stage.mean_model(self.outcome, np.column_stack([seen.X, seen.treatment]), seen.y, seen.weights)
        centre = stage.mean_model(self.outcome, seen.X, seen.treatment, seen.weights)
        left_over = seen.treatment - centre(seen.X)
        floor = 1e-12 * max(float(left_over.var()), np.finfo(np.float64).tiny)
        log_square = stage.mean_model(self.outcome, seen.X, np.log(left_over**2 + floor), seen.weights)
        standard = left_over / np.exp(0.5 * log_square(seen.X))
        scale = float(standard.std())  # the mean of a logarithm lies below the logarithm of the mean
        spread = np.exp(0.5 * log_square(held.X)) * scale
        return {
            "m": outcome(np.column_stack([held.X, held.treatment])),
            "m_bar": stage.mean_over_rows(outcome, held.X, held.treatment),
            "ratio": stage.density_ratio(centre(held.X), spread, standard / scale, held.treatment),
        }


def quality(design: Design, held: Sample, found: Mapping[str, np.ndarray], level: float) -> dict[str, float]:
    """How well the models do on the rows they have not seen: r2 of means, log loss (nats) of probabilities."""
    y, a = held.y, held.treatment
    if design == "binary":
        own = np.where(a == 1, found["m1"], found["m0"])
        return {"outcome_r2": r2(y, own), "propensity_log_loss": log_loss(a, found["e"])}
    if design == "level":
        chosen = a == level
        own_r2 = r2(y[chosen], found["m"][chosen])
        return {"outcome_r2": own_r2, "propensity_log_loss": log_loss(chosen.astype(np.float64), found["e"])}
    if design == "continuous":
        return {"outcome_r2": r2(y, found["m"]), "treatment_r2": r2(a, found["a"])}
    if design == "dose":
        return {"outcome_r2": r2(y, found["m"])}
    z = held.instrument
    assert z is not None
    own = np.where(z == 1, found["y1"], found["y0"])
    return {"outcome_r2": r2(y, own), "instrument_log_loss": log_loss(z, found["z"])}


def r2(y: np.ndarray, predicted: np.ndarray) -> float:
    total = float(((y - y.mean()) ** 2).sum())
    return 1.0 - float(((y - predicted) ** 2).sum()) / total if total > 0 else 0.0


def log_loss(chosen: np.ndarray, probability: np.ndarray) -> float:
    p = np.clip(probability, 1e-15, 1 - 1e-15)
    return float(-(chosen * np.log(p) + (1 - chosen) * np.log(1 - p)).mean())
