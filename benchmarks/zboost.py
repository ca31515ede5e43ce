"""Z-boosting: seconds of a fit, false negatives at fixed false positives, adversaries, amplification, the exact test.

    python benchmarks/zboost.py [--part speed quality theory copies test]

One process and thread, CPU time, blocks that alternate. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

from raycipe.components.estimators import _boost as boosting
from raycipe.components.estimators._masses import Adaptive, Among
from raycipe.components.measures.fpfn_curve import curve
from raycipe.components.weak_learners._centerpoint import centerpoint
from raycipe.components.z_sets import _geometry as geometry
from raycipe.framework.registry import build, make

ROUNDS = 200
BLOCKS = 3
SPLITS = 20
ASYMMETRIC = {
    "FP + 3 FN <= 0.7": {"type": "halfplane", "weights": [1, 3], "bound": 0.7},
    "FP <= 0.04, FN <= 0.6": {"type": "box", "fp": 0.04, "fn": 0.6},
    "FP <= 0.5, FN <= 0.05": {"type": "box", "fp": 0.5, "fn": 0.05},
}

Scores = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # X, y, X to score


def ours(X: np.ndarray, y: np.ndarray, other: np.ndarray) -> np.ndarray:
    return make("estimators/zboost", rounds=ROUNDS, calibration=0).fit(X, y).vote_scores(other)  # type: ignore[no-any-return]


def binned(X: np.ndarray, y: np.ndarray, other: np.ndarray) -> np.ndarray:
    weak = {"type": "stump", "max_bins": 255}
    return make("estimators/zboost", weak=weak, rounds=ROUNDS, calibration=0).fit(X, y).vote_scores(other)  # type: ignore[no-any-return]


def adaboost(X: np.ndarray, y: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(AdaBoostClassifier(n_estimators=ROUNDS, random_state=0).fit(X, y).decision_function(other))


def hist(X: np.ndarray, y: np.ndarray, other: np.ndarray) -> np.ndarray:
    model = HistGradientBoostingClassifier(max_iter=ROUNDS, max_leaf_nodes=2, random_state=0)
    return np.asarray(model.fit(X, y).decision_function(other))


def xgboost(X: np.ndarray, y: np.ndarray, other: np.ndarray) -> np.ndarray:
    model = XGBClassifier(n_estimators=ROUNDS, max_depth=1, tree_method="hist", n_jobs=1)
    return np.asarray(model.fit(X, y).predict_proba(other)[:, 1])


BOOSTERS: dict[str, Scores] = {
    "zboost": ours,
    "AdaBoost": adaboost,
    "HistGradientBoosting": hist,
    "XGBoost, depth 1": xgboost,
}


def large() -> tuple[np.ndarray, np.ndarray]:
    return make_classification(20_000, 20, n_informative=8, weights=[0.98], random_state=0)  # type: ignore[no-any-return]


def speed() -> None:
    """CPU seconds of a fit of 200 stumps, least of three blocks."""
    data = {"breast tumours, 569 x 30": load_breast_cancer(return_X_y=True), "20,000 x 20": large()}
    names = {**BOOSTERS, "zboost, 255 bins": binned}
    print(f"| booster | {' | '.join(data)} |\n|---|{'---|' * len(data)}")
    least = {
        name: [min(block(fit, X, y) for _ in range(BLOCKS)) for X, y in data.values()] for name, fit in names.items()
    }
    for name, seconds in least.items():
        print(f"| {name} | {' | '.join(f'{second:.3f} s' for second in seconds)} |")


def block(fit: Scores, X: np.ndarray, y: np.ndarray) -> float:
    started = time.process_time()
    fit(X, y, X[:1])
    return time.process_time() - started


def problems() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast tumours", X, (y == 0).astype(int)
    X, y = load_digits(return_X_y=True)
    for digit in (3, 8):
        yield f"digit {digit} against the rest", X, (y == digit).astype(int)
    X, y = make_classification(5000, 20, n_informative=8, weights=[0.95], random_state=0)
    yield "5 % positives, 5,000 x 20", X, y


def quality() -> None:
    """Mass of false negatives at FP <= 1 % and 5 % of the test examples, mean and its error over the splits."""
    print(f"| data, {SPLITS} splits | booster | FN at FP 1 % | FN at FP 5 % |\n|---|---|---|---|")
    for name, X, y in problems():
        for booster, fit in BOOSTERS.items():
            found = np.array([errors(fit, X, y, seed) for seed in range(SPLITS)])
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / SPLITS**0.5
            cells = " | ".join(f"{m:.4f} ± {e:.4f}" for m, e in zip(mean, error, strict=True))
            print(f"| {name} | {booster} | {cells} |")


def errors(fit: Scores, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float]:
    a, b, ya, yb = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    fp, fn, _ = curve(fit(a, ya, b), yb == 1)
    return float(fn[fp <= 0.01].min()), float(fn[fp <= 0.05].min())


def theory() -> None:
    """The worst learner that keeps a promise: rounds to separation, or the training error that is left."""
    y = np.arange(400) < 105
    np.random.default_rng(0).shuffle(y)
    X = np.random.default_rng(1).normal(size=(400, 2))
    print("| promise | Z known | Z unknown | label mass 1/2 | AdaBoost | AdaBoost, costs |\n|---|---|---|---|---|---|")
    for name, z in ASYMMETRIC.items():
        test = geometry.boostability(build(z, "z_sets").pieces())
        fit = make("weak_learners/z_oracle", z=z).prepare(X, y)
        cells = []
        for search in (Among([test.p_star]), Adaptive(), Among([0.5])):
            found = boosting.boost(X, y, np.ones(400), fit, search, rounds=3000, until="separated")
            cells.append(
                f"{len(found.rounds)} rounds, {len(found.asked)} queries" if found.is_separated else found.stop
            )
        odds = test.p_star / (1 - test.p_star) * (~y).sum() / y.sum()
        for cost in (1.0, float(odds)):
            weak = {"type": "z_oracle", "z": z}
            other = make("estimators/adaboost", weak=weak, rounds=3000, cost_fn=cost, calibration=0).fit(X, y)
            cells.append(f"error {other.train_error_:.3f} after {other.n_iter_} rounds")
        print(f"| {name} | {' | '.join(cells)} |")


def copies() -> None:
    """Copies for 95 % success at q = 0.75 in the box 0.1 x 0.3, 200 trials."""
    pieces = build({"type": "box", "fp": 0.1, "fn": 0.3}, "z_sets").pieces()
    print("| copies | centerpoint in the box |\n|---|---|")
    for k in (5, 9, 15, 31):
        kept = 0
        for seed in range(200):
            g = np.random.default_rng(seed)
            bad = np.where(g.random((k, 1)) < 0.5, [0.5, 0.2], [0.1, 0.9])
            points = np.where(g.random((k, 1)) < 0.75, g.uniform(size=(k, 2)) * [0.1, 0.3], bad)
            kept += geometry.slack(pieces, centerpoint(points, g).point)[0] >= -1e-6
        print(f"| {k} | {kept / 200:.2f} |")


def exact() -> None:
    """CPU milliseconds of the exact test."""
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    round_piece = np.column_stack([0.2 + 0.1 * np.cos(angles), 0.2 + 0.1 * np.sin(angles)])
    g = np.random.default_rng(0)
    many = [geometry.hull(g.uniform(0, 0.3, 2) + g.uniform(0, 0.1, (10, 2))) for _ in range(50)]
    print("| set | ms |\n|---|---|")
    for name, pieces in (("polygon of 200 corners", [round_piece]), ("union of 50 polygons", many)):
        seconds = []
        for _ in range(5):
            started = time.process_time()
            geometry.boostability(pieces)
            seconds.append(time.process_time() - started)
        print(f"| {name} | {1000 * min(seconds):.0f} |")


PARTS: dict[str, Callable[[], None]] = {
    "speed": speed,
    "quality": quality,
    "theory": theory,
    "copies": copies,
    "test": exact,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    warnings.simplefilter("ignore")
    for part in parser.parse_args().part:
        work: Any = PARTS[part]
        print(f"\n{work.__doc__}\n")
        work()


if __name__ == "__main__":
    main()
