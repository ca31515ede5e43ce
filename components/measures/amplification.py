"""How often an amplified learner keeps a promise."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from raycipe.components.measures._two_classes import examples_of
from raycipe.components.weak_learners._centerpoint import centerpoint
from raycipe.components.weak_learners._pairs import pair
from raycipe.components.weak_learners.amplified import LOWEST
from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.arguments import Count, Length, Range
from raycipe.framework.contracts import Measure, Measured, Trained, WeakLearner, ZSet
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

RULES = ("single", "centerpoint", "downward", "mean", "median", "select")
TOLERANCE = 1e-6


@register
class Amplification(Measure):
    """Fits copies of a weak learner again and again: the share of trials in which one hypothesis from them is in Z.

    Rules: one copy alone, a centerpoint of the copies' pairs (FP, FN), a downward centerpoint, their mean, their median
    by coordinate, and the copy deepest in Z, which must know Z. `success` is the share q of single copies in Z;
    centerpoints are entitled to work above q = 2/3, downward ones above 1/2.

    Args:
        weak: the learner
        z: the promise, convex
        copies: k, how many copies are fitted for each hypothesis; values are <rule>_<k>
        trials: how often
        p: label mass of the distribution, uniform within each class
        positive: the class to find, by its number
        split: examples to fit on

    Reference:
        R. Rado, A Theorem on General Measure, Journal of the London Mathematical Society 1946.

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, rounds: 10}
        measures:
          - type: amplification
            weak: {type: flaky, base: stump, success: 0.8, failure: adversarial}
            z: {type: box, fp: 0.2, fn: 0.2}
            trials: 10
    """

    needs = ("splits",)

    def __init__(
        self,
        weak: WeakLearner,
        z: ZSet,
        copies: Annotated[list[Annotated[int, Range(ge=1, le=2000)]], Length(1, 20)] = [15, 31],  # noqa: B006
        trials: Count = 100,
        p: Annotated[float, Range(gt=0, lt=1)] = 0.5,
        positive: Annotated[int, Range(ge=0, le=1)] = 1,
        split: str = "train",
    ) -> None:
        self.weak = weak
        self.z = z
        self.copies = copies
        self.trials = trials
        self.p = p
        self.positive = positive
        self.split = split

    def measure(self, trained: Trained) -> Measured:
        X, y = examples_of(trained, self.split, self.positive)
        pieces = self.z.pieces()
        weights = np.where(y, self.p / y.sum(), (1 - self.p) / (~y).sum())
        fit = self.weak.prepare(X, y)
        kept: dict[str, list[bool]] = {}
        singles: list[np.ndarray] = []
        for trial in range(self.trials):
            for k in self.copies:
                generator = numpy_generator(trained.seed, "amplification", trial, k)
                points = np.array([pair(fit(weights, generator)(X), y, weights) for _ in range(k)])
                singles += [points]
                for rule, z in chosen(points, pieces, generator).items():
                    inside = geometry.slack(pieces, z)[0] >= -TOLERANCE
                    kept.setdefault(f"{rule}_{k}", []).append(bool(inside))
        seen = np.concatenate(singles)
        success = float((geometry.slack(pieces, seen) >= -TOLERANCE).mean())
        shares = {name: float(np.mean(each)) for name, each in kept.items()}
        rows = [
            {
                "copies": k,
                "success": success,
                "bound": bound(k, success, "convex"),
                "bound_downward": bound(k, success, "downward"),
            }
            | {rule: shares[f"{rule}_{k}"] for rule in RULES}
            for k in self.copies
        ]
        return Measured(
            values={"success": success, **shares},
            tables={"shares": rows},
            figures={"shares": lambda: draw(rows)},
        )


def chosen(points: np.ndarray, pieces: list[np.ndarray], generator: np.random.Generator) -> dict[str, np.ndarray]:
    """The pair (2,) that each rule makes of the copies' pairs (k, 2)."""
    return {
        "single": points[0],
        "centerpoint": centerpoint(points, generator).point,
        "downward": centerpoint(points, generator, downward=True).point,
        "mean": points.mean(axis=0),
        "median": np.median(points, axis=0),
        "select": points[int(geometry.slack(pieces, points).argmax())],
    }


def bound(k: int, q: float, shape: str) -> float:
    """P(Bin(k, q) > 2 k / 3), or k / 2: how often the theorem promises success; 0 for q at the limit or below."""
    from scipy.stats import binom

    return float(binom.sf(np.floor(LOWEST[shape] * k + 1e-9), k, q))


def draw(rows: list[dict[str, Any]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = figure.subplots()
    for rule in RULES:
        axes.plot([row["copies"] for row in rows], [row[rule] for row in rows], "o-", label=rule)
    axes.plot([row["copies"] for row in rows], [row["bound"] for row in rows], "k--", label="promised for centerpoint")
    axes.set(xlabel="copies", ylabel="share of trials inside z", ylim=(-0.02, 1.02))
    axes.legend(fontsize=8)
    return figure
