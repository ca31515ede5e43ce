"""How a trajectory of training fills space, by spanning trees."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from raycipe.components.measures._curvature import Precision
from raycipe.components.measures._dynamics import Descent, map_of
from raycipe.framework.arguments import Count, Length, Positive, Range, Seed
from raycipe.framework.contracts import Measure, Measured, Skipped, Trained
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator

NUMBER_OF_SIZES = 8
MAX_BYTES = 4_000_000_000


@register
class PhDim(Measure):
    """Persistent-homology dimension of the weights that further training visits, and their lifetime sum.

    E(n) is the sum of length^alpha over the edges of the minimum spanning tree of n points of the trajectory (they are
    the lifetimes of its components), averaged over random choices; it grows like n^m, and dimension = alpha / (1 - m).
    `lifetime_sum` is E of the largest n.

    Args:
        alpha: power of the edges' lengths
        trajectory: steps of further training whose weights are the points
        sizes: numbers of points (null: eight from 100, or a tenth of the trajectory, to all of it)
        repeats: random choices for each size
        lr: learning rate (null: the one in force at the weights' step; only for sgd)
        batch_size: examples of a step (null: the training's)
        precision: number format of training
        seed: draws minibatches and choices

    Reference:
        T. Birdal, A. Lou, L. Guibas, U. Simsekli, Intrinsic Dimension, Persistent Homology and Generalization in Neural
        Networks, NeurIPS 2021.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [4]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
        measures: [{type: ph_dim, trajectory: 60}]
    """

    needs: ClassVar[tuple[str, ...]] = ("model", "task", "splits")
    in_training: ClassVar[bool] = False
    reports: ClassVar[tuple[str, ...]] = ("dimension", "lifetime_sum", "slope")

    def __init__(
        self,
        alpha: Positive = 1.0,
        trajectory: Annotated[int, Range(ge=20, le=10**5)] = 1000,
        sizes: Annotated[list[Annotated[int, Range(ge=2, le=10**5)]], Length(2, 100)] | None = None,
        repeats: Count = 3,
        lr: Positive | None = None,
        batch_size: Count | None = None,
        precision: Precision = "float32",
        seed: Seed = 0,
    ) -> None:
        if sizes is not None and (sorted(set(sizes)) != list(sizes) or sizes[-1] > trajectory):
            raise ValueError(f"sizes: must grow, to at most the trajectory's {trajectory} points")
        self.alpha = alpha
        self.trajectory = trajectory
        self.sizes = sizes
        self.repeats = repeats
        self.lr = lr
        self.batch_size = batch_size
        self.precision: Precision = precision
        self.seed = seed

    def measure(self, trained: Trained) -> Measured:
        path = Descent(trained, map_of(trained, self.lr, True), self.batch_size, self.seed, self.precision)
        needed = self.trajectory * path.operator.size * 4
        if needed > MAX_BYTES:
            raise Skipped(f"the trajectory takes {needed / 1e9:.1f} GB: shorten it")
        points = np.empty((self.trajectory, path.operator.size), dtype=np.float32)
        for number in range(self.trajectory):
            path.step()
            points[number] = path.point.cpu().numpy()
        sums = lifetime_sums(points, self._sizes(), self.alpha, self.repeats, self.seed)
        slope = float(np.polyfit(np.log(list(sums)), np.log(list(sums.values())), 1)[0])
        values = {"slope": slope, "lifetime_sum": list(sums.values())[-1]}
        if slope < 1:
            values["dimension"] = self.alpha / (1 - slope)
        rows: list[dict[str, Any]] = [{"points": n, "lifetime_sum": value} for n, value in sums.items()]
        return Measured(values=values, tables={"sums": rows})

    def _sizes(self) -> list[int]:
        first = min(100, max(2, self.trajectory // 10))
        return self.sizes or sorted(
            set(np.geomspace(first, self.trajectory, NUMBER_OF_SIZES).round().astype(int).tolist())
        )


def dimension(points: np.ndarray, sizes: list[int], alpha: float = 1.0, repeats: int = 3, seed: int = 0) -> float:
    """alpha / (1 - m) of points (n, d). Raises ValueError where the sums grow too fast to tell one (m >= 1)."""
    sums = lifetime_sums(points, sizes, alpha, repeats, seed)
    slope = float(np.polyfit(np.log(list(sums)), np.log(list(sums.values())), 1)[0])
    if slope >= 1:
        raise ValueError(f"points: their sums grow with slope {slope:.3g}, which tells no dimension")
    return alpha / (1 - slope)


def lifetime_sums(points: np.ndarray, sizes: list[int], alpha: float, repeats: int, seed: int) -> dict[int, float]:
    """n -> mean over choices of n of the points of sum length^alpha over their minimum spanning tree."""
    found = {}
    for size in sizes:
        sums = []
        for repeat in range(1 if size == len(points) else repeats):
            chosen = numpy_generator(seed, "ph_dim", size, repeat).choice(len(points), size, replace=False)
            sums.append(float((tree_lengths(points[chosen]) ** alpha).sum()))
        found[size] = float(np.mean(sums))
    return found


def tree_lengths(points: np.ndarray) -> np.ndarray:
    """The lengths of the minimum spanning tree's edges of points (n, d), by Prim's method; (n - 1,)."""
    n = len(points)
    nearest = np.full(n, np.inf)
    outside = np.ones(n, dtype=bool)
    lengths = np.empty(n - 1)
    last = 0
    outside[0] = False
    for edge in range(n - 1):
        gaps = np.linalg.norm(points[outside].astype(np.float64) - points[last], axis=1)
        nearest[outside] = np.minimum(nearest[outside], gaps)
        last = int(np.argmin(np.where(outside, nearest, np.inf)))
        lengths[edge] = nearest[last]
        outside[last] = False
    return lengths
