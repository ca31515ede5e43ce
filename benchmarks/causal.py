"""Causal effects against doubleml and econml: `python benchmarks/causal.py --peers PYTHON`.

PYTHON is an interpreter with doubleml and econml (see constraints-peers.txt). All get the same data sets, the
same folds (econml draws its own) and the same first-stage learners of scikit-learn. Without --peers, ours alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WORLDS = [f"dgp{number}" for number in range(1, 10)]
FUNCTIONS = ["dgp2", "dgp4"]
ROWS, FRESH, FOLDS, CLIP = 1000, 300, 5, 0.01
RIDGE, C = 1.0, 1.0
LEVEL = 0.95


def learners() -> tuple[Any, Any]:
    """Ridge and logistic regression on squares and products, as scikit-learn has them."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    features = PolynomialFeatures(2, include_bias=False)
    return make_pipeline(features, Ridge(alpha=RIDGE)), make_pipeline(features, LogisticRegression(C=C, max_iter=1000))


def draw(name: str, seed: int) -> dict[str, np.ndarray]:
    from raycipe.components.data import _dgps as dgps
    from raycipe.framework.streams import numpy_generator

    train = dgps.draw(name, ROWS, numpy_generator(seed, "benchmark"))
    fresh = dgps.draw(name, FRESH, numpy_generator(seed, "benchmark", 1))
    generator, folds = numpy_generator(seed, "benchmark", 2), np.zeros(ROWS, dtype=np.int64)
    for arm in (0, 1):
        rows = np.flatnonzero(train["treatment"] == arm)
        folds[generator.permutation(rows)] = np.arange(len(rows)) % FOLDS
    effect = fresh["truth"][:, 2] - fresh["truth"][:, 1]
    kept = {"x": train["x"], "y": train["y"], "a": train["treatment"], "folds": folds}
    return {**kept, "fresh": fresh["x"], "effect": effect, "ate": np.array(dgps.effects(name)["true_ate"])}


def ours(data: dict[str, np.ndarray], **arguments: Any) -> dict[str, Any]:
    from raycipe.framework.registry import make

    steps = [{"name": "polynomial_features", "arguments": {"degree": 2, "include_bias": False}}]
    nuisance = {
        "type": "crossfit",
        "outcome": {"type": "sklearn", "name": "Ridge", "arguments": {"alpha": RIDGE}, "preprocessing": steps},
        "propensity": {
            "type": "sklearn",
            "name": "LogisticRegression",
            "arguments": {"C": C, "max_iter": 1000},
            "preprocessing": steps,
        },
    }
    estimator = make("estimators/gbayes_causal", nuisance=nuisance, loss={"type": "dr", "clip": CLIP}, **arguments)
    began = time.process_time()
    estimator.fit(data["x"], data["y"], treatment=data["a"], folds=data["folds"])
    if estimator.is_function:
        low, high = estimator.interval(data["fresh"])
        return row(estimator.predict(data["fresh"]), low, high, data["effect"], time.process_time() - began)
    seen = estimator.summary()
    return row(seen["estimate"], seen["low"], seen["high"], data["ate"], time.process_time() - began)


def row(estimate: Any, low: Any, high: Any, truth: Any, seconds: float) -> dict[str, Any]:
    """Coverage, length, mean square error of one fit, and CPU seconds."""
    inside = (np.asarray(low) <= truth) & (truth <= np.asarray(high))
    square = float(np.mean((np.asarray(estimate) - truth) ** 2))
    length = float(np.mean(np.asarray(high) - np.asarray(low)))
    return {"inside": float(np.mean(inside)), "length": length, "square": square, "seconds": seconds}


# ---------------------------------------------------------------------------------------------- peers


def doubleml_ate(data: dict[str, np.ndarray]) -> dict[str, Any]:
    import doubleml

    outcome, propensity = learners()
    table = doubleml.DoubleMLData.from_arrays(data["x"], data["y"], data["a"])
    began = time.process_time()
    trimming = {"ps_processor_config": doubleml.utils.PSProcessorConfig(clipping_threshold=CLIP)}
    model = doubleml.DoubleMLIRM(table, outcome, propensity, n_folds=FOLDS, **trimming)
    parts = [(np.flatnonzero(data["folds"] != fold), np.flatnonzero(data["folds"] == fold)) for fold in range(FOLDS)]
    model.set_sample_splitting([parts])
    model.fit()
    low, high = model.confint(level=LEVEL).to_numpy()[0]
    return row(model.coef[0], low, high, data["ate"], time.process_time() - began)


def econml_forest(data: dict[str, np.ndarray]) -> dict[str, Any]:
    from econml.dml import CausalForestDML

    outcome, propensity = learners()
    began = time.process_time()
    model = CausalForestDML(
        model_y=outcome,
        model_t=propensity,
        discrete_treatment=True,
        n_estimators=200,
        cv=FOLDS,
        n_jobs=1,
        random_state=0,
    )
    model.fit(data["y"], data["a"].astype(int), X=data["x"])
    low, high = model.effect_interval(data["fresh"], alpha=1 - LEVEL)
    return row(model.effect(data["fresh"]), low, high, data["effect"], time.process_time() - began)


def econml_linear(data: dict[str, np.ndarray]) -> dict[str, Any]:
    from econml.dr import LinearDRLearner
    from sklearn.preprocessing import PolynomialFeatures

    outcome, propensity = learners()
    began = time.process_time()
    model = LinearDRLearner(
        model_regression=outcome,
        model_propensity=propensity,
        featurizer=PolynomialFeatures(2, include_bias=False),
        cv=FOLDS,
        min_propensity=CLIP,
        random_state=0,
    )
    model.fit(data["y"], data["a"].astype(int), X=data["x"])
    low, high = model.effect_interval(data["fresh"], alpha=1 - LEVEL)
    return row(model.effect(data["fresh"]), low, high, data["effect"], time.process_time() - began)


PEERS = {"ate": {"doubleml": doubleml_ate}, "cate": {"forest": econml_forest, "linear": econml_linear}}


def run_peers(folder: Path) -> None:
    """In the peers' interpreter: every data set of the folder, results beside it."""
    import warnings

    warnings.simplefilter("ignore")
    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as stored:
            data = {name: stored[name] for name in stored.files}
        kind = file.name.split("-")[0]
        found = {name: fit(data) for name, fit in PEERS[kind].items()}
        file.with_suffix(".json").write_text(json.dumps(found))


# ---------------------------------------------------------------------------------------------- tables


def measure(datasets: int, peers: str | None) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """(kind, world, who) -> a row for each data set."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, worlds, count in (("ate", WORLDS, datasets), ("cate", FUNCTIONS, max(2, datasets // 4))):
            for world in worlds:
                for seed in range(count):
                    data = draw(world, seed)
                    np.savez(folder / f"{kind}-{world}-{seed:04d}.npz", **data)
                    for who, arguments in OURS[kind].items():
                        found.setdefault((kind, world, who), []).append(ours(data, **arguments))
        if peers:
            threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
            subprocess.run([peers, __file__, "--folder", name], check=True, env=threads, stdout=subprocess.DEVNULL)
            for file in sorted(folder.glob("*.json")):
                kind, world, _ = file.stem.split("-")
                for who, result in json.loads(file.read_text()).items():
                    found.setdefault((kind, world, who), []).append(result)
    return found


OURS: dict[str, dict[str, dict[str, Any]]] = {
    "ate": {"ours": {}, "ours, prior N(1, .1²)": {"prior": {"type": "gaussian", "mean": 1.0, "sd": 0.1}}},
    "cate": {
        "ours, gp": {"estimand": "cate", "prior": {"type": "gp", "inducing": 40, "lengthscale": 2.0}},
        "ours, poly2": {"estimand": "cate", "prior": {"type": "linear", "features": "poly2"}},
    },
}


def table(found: dict[tuple[str, str, str], list[dict[str, Any]]]) -> str:
    lines = [
        "| effect | world | who | data sets | coverage | length | rmse | CPU seconds a fit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (kind, world, who), rows in sorted(found.items()):
        mean = {name: float(np.mean([each[name] for each in rows])) for name in rows[0]}
        numbers = f"{mean['inside']:.3f} | {mean['length']:.3f} | {mean['square'] ** 0.5:.3f} | {mean['seconds']:.3f}"
        lines.append(f"| {'average' if kind == 'ate' else 'function'} | {world} | {who} | {len(rows)} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter with doubleml and econml")
    parser.add_argument("--datasets", type=int, default=200, help="a world; a quarter of them for functions")
    parser.add_argument("--folder", help=argparse.SUPPRESS)  # the peers' half
    args = parser.parse_args()
    if args.folder:
        run_peers(Path(args.folder))
        sys.exit()
    print(table(measure(args.datasets, args.peers)))


if __name__ == "__main__":
    main()
