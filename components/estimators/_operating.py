"""Two classes, one of them positive: labels, thresholds, calibrated probabilities, and errors at an operating point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from raycipe.framework.errors import shown
from raycipe.framework.streams import numpy_generator
from raycipe.framework.words import listed

SCORED = ("fp", "fn", "fpr", "fnr", "fp_low", "fp_high", "fn_low", "fn_high", "undecided")
FEW = 10  # examples of a class, below which nothing much can be learned
CONFIDENCE = 0.95


def positive_class(classes: np.ndarray, positive: Any, class_names: list[str] | None) -> Any:
    """The entry of `classes` that counts as positive: the last of two, or the one that `positive` names.

    Raises ValueError, argument's name first.
    """
    if len(classes) < 2:
        raise ValueError(f"y: needs examples of two classes, not of one class alone ({shown(classes[0])})")
    if len(classes) > 2:
        more = f"Only binary classification is supported, and there are {len(classes)} classes"
        raise ValueError(f"y: {more}: take estimators/one_vs_rest around this one")
    names = {str(label): label for label in classes.tolist()}
    if class_names and all(isinstance(label, int) and 0 <= label < len(class_names) for label in names.values()):
        names |= {class_names[label]: label for label in names.values()}
    if positive is None:
        return classes[1]
    if str(positive) not in names:
        raise ValueError(f"positive: no class is named `{shown(positive)}`; there are {listed(list(names))}")
    return names[str(positive)]


def check_weights(weights: np.ndarray, y: np.ndarray) -> None:
    """Raise ValueError for weights (n,) that can't be distributions over both labels (n,) bool."""
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("weights: must be finite and not negative")
    for label, name in ((y, "positive"), (~y, "negative")):
        if weights[label].sum() <= 0:
            raise ValueError(f"weights: the {name} class has no weight at all")


def held_out(y: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Which rows (n,) bool to keep for calibration: the share of each label, at least one, drawn by the seed.

    Raises ValueError if nothing of a label would be left on one of the sides.
    """
    found = np.zeros(len(y), dtype=bool)
    if not share:
        return found
    generator = numpy_generator(seed, "calibration")
    for label, name in ((y, "positive"), (~y, "negative")):
        rows = np.nonzero(label)[0]
        if len(rows) < 2:
            raise ValueError(
                f"calibration: the {name} class has {len(rows)} example{'s' * (len(rows) != 1)}, "
                "which can't be in both parts; set calibration: 0"
            )
        count = min(max(1, round(share * len(rows))), len(rows) - 1)
        found[generator.permutation(rows)[:count]] = True
    return found


# ---------------------------------------------------------------------------------------------- probabilities


class Platt(NamedTuple):
    """P(positive | score) = 1 / (1 + exp(-(slope score + shift)))."""

    slope: float
    shift: float

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-np.clip(self.slope * scores + self.shift, -500, 500)))


def platt(scores: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Platt:
    """Logistic regression of smoothed targets on the score (J. Platt, Probabilistic Outputs, 1999)."""
    from sklearn.linear_model import LogisticRegression

    high, low = (y.sum() + 1) / (y.sum() + 2), 1 / ((~y).sum() + 2)
    target = np.where(y, high, low)
    doubled = np.tile(scores, 2)[:, None]
    labels = np.repeat([1, 0], len(y))
    model = LogisticRegression(C=1e6, max_iter=1000)
    model.fit(doubled, labels, sample_weight=np.concatenate([weights * target, weights * (1 - target)]))
    return Platt(float(model.coef_[0, 0]), float(model.intercept_[0]))


def shifted(scores: np.ndarray, theta: float) -> np.ndarray:
    """Scores in [0, 1], bent so that theta becomes 1/2: no probabilities, but on the right side."""
    theta = min(max(theta, 1e-12), 1 - 1e-12)
    return np.where(scores <= theta, 0.5 * scores / theta, 0.5 + 0.5 * (scores - theta) / (1 - theta))


# ---------------------------------------------------------------------------------------------- errors


def operating_scores(scores: np.ndarray, y: np.ndarray, low: float, high: float) -> dict[str, float]:
    """Errors of predictions from scores (n,) for labels (n,) bool: joint masses with Clopper-Pearson intervals, rates.

    Undecided examples (low < score <= high) are neither.
    """
    fp, fn = int(((scores > high) & ~y).sum()), int(((scores <= low) & y).sum())
    n = len(y)
    found = {"fp": fp / n, "fn": fn / n, "undecided": float(((scores > low) & (scores <= high)).mean())}
    for name, count in (("fp", fp), ("fn", fn)):
        found[f"{name}_low"], found[f"{name}_high"] = clopper_pearson(count, n)
    if (~y).any():
        found["fpr"] = fp / int((~y).sum())
    if y.any():
        found["fnr"] = fn / int(y.sum())
    return found


def clopper_pearson(hits: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a share of which `hits` of n were seen."""
    from scipy.stats import beta

    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return low, high


def scores_with_errors(estimator: Any, facts: Mapping[str, Any], X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """What every classifier reports, and the errors at the operating point of one that has `vote_scores`."""
    from raycipe.framework.scores import scores

    errors = operating_scores(estimator.vote_scores(X), y == estimator.positive_, *estimator.thresholds_)
    return {**scores(estimator, facts, X, y), **errors}
