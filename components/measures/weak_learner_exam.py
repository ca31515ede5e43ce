"""What a weak learner can be trusted to do."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from raycipe.components.measures._two_classes import examples_of
from raycipe.components.weak_learners._pairs import pair
from raycipe.components.z_sets import _geometry as geometry
from raycipe.components.z_sets import _plane as plane
from raycipe.framework.arguments import Count, Range
from raycipe.framework.contracts import Measure, Measured, Trained, WeakLearner
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

MASSES = np.arange(1, 20) / 20
RESAMPLES = 500


@register
class WeakLearnerExam(Measure):
    """Asks a weak learner at 19 label masses under random weightings: its empirical promise, and where to ask it.

    Each weighting draws exponential weights to the power `steep`, so that some examples count much more than others, as
    they do late in boosting. A bootstrap gives the 90 % interval of the mean edge |tpr - fpr| at each mass. The hull of
    all pairs (FP, FN) is tested like a promise.

    Args:
        weak: the learner
        weightings: random weightings at each label mass
        steep: how uneven they are; 0 is uniform within each class
        positive: the class to find, by its number
        split: examples to ask about

    Recipe:
        data: breast_cancer
        estimator: {type: zboost, rounds: 10}
        measures: [{type: weak_learner_exam, weak: {type: sklearn, name: GaussianNB}, weightings: 5}]
    """

    needs: ClassVar[tuple[str, ...]] = ("splits",)
    reports: ClassVar[tuple[str, ...]] = ("best_p", "best_edge", "edge_at_half", "least_edge", "gamma", "boostable")

    def __init__(
        self,
        weak: WeakLearner,
        weightings: Count = 20,
        steep: Annotated[float, Range(ge=0, le=10)] = 2.0,
        positive: Annotated[int, Range(ge=0, le=1)] = 1,
        split: str = "train",
    ) -> None:
        self.weak = weak
        self.weightings = weightings
        self.steep = steep
        self.positive = positive
        self.split = split

    def measure(self, trained: Trained) -> Measured:
        X, y = examples_of(trained, self.split, self.positive)
        fit = self.weak.prepare(X, y)
        asked = np.zeros((len(MASSES), self.weightings, 2))
        for i, p in enumerate(MASSES):
            for j in range(self.weightings):
                generator = numpy_generator(trained.seed, "weak_learner_exam", i, j)
                w = generator.exponential(size=len(y)) ** self.steep
                weights = np.where(y, p * w / w[y].sum(), (1 - p) * w / w[~y].sum())
                asked[i, j] = pair(np.asarray(fit(weights, generator)(X), dtype=float), y, weights)
        edges = np.abs(geometry.coin_gap(asked, MASSES[:, None]))
        rows = by_mass(asked, edges, numpy_generator(trained.seed, "weak_learner_exam"))
        hull = np.clip(geometry.hull(asked.reshape(-1, 2)), 0, 1)
        found = geometry.boostability([hull])
        best = int(edges.mean(axis=1).argmax())
        queries = np.column_stack([asked.reshape(-1, 2), np.repeat(MASSES, self.weightings)])
        return Measured(
            values={
                "best_p": float(MASSES[best]),
                "best_edge": float(edges[best].mean()),
                "edge_at_half": float(edges[len(MASSES) // 2].mean()),
                "least_edge": float(edges.min()),
                "gamma": found.gamma,
                "boostable": float(found.is_boostable),
            },
            tables={"masses": rows},
            figures={"plane": lambda: plane.draw([hull], found, queries), "edges": lambda: draw(rows)},
        )


def by_mass(asked: np.ndarray, edges: np.ndarray, generator: np.random.Generator) -> list[dict[str, float]]:
    """A row a label mass: mean pair, mean edge with its bootstrap interval, least edge."""
    rows = []
    for p, pairs, edge in zip(MASSES, asked, edges, strict=True):
        means = edge[generator.integers(len(edge), size=(RESAMPLES, len(edge)))].mean(axis=1)
        low, high = (float(value) for value in np.quantile(means, [0.05, 0.95]))
        fp, fn = (float(value) for value in pairs.mean(axis=0))
        mean = {"edge": float(edge.mean()), "low": low, "high": high, "least": float(edge.min())}
        rows.append({"p": float(p), "fp": fp, "fn": fn, **mean})
    return rows


def draw(rows: list[dict[str, float]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    axes = figure.subplots()
    masses = [row["p"] for row in rows]
    axes.fill_between(masses, [row["low"] for row in rows], [row["high"] for row in rows], alpha=0.3)
    axes.plot(masses, [row["edge"] for row in rows], label="mean")
    axes.plot(masses, [row["least"] for row in rows], "--", label="least")
    axes.set(xlabel="label mass asked at", ylabel="|tpr - fpr|", ylim=(0, None))
    axes.legend()
    return figure
