"""A study of many small runs against a hand-written loop of Ray tasks, and cross-validation against joblib's.

    python benchmarks/fanout.py [--runs 12] [--folds 10] [--repeats 3]

Both sides train the same recipe with the same seeds on the same Ray. The loop does what a study does for the numbers
alone: it builds, trains and scores, and returns the figures. The study also writes run folders, checkpoints and rows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

RECIPE = """
recipe: 1
name: bench
data: digits
model: {type: mlp, hidden: [64]}
task: classification
optimizer: {type: sgd, lr: 0.05, momentum: 0.9}
train: {epochs: 5}
"""
FOREST = {"n_estimators": 100}


def by_hand(seed: int, epochs: int = 5) -> float:
    """The same training without Raycipe's loop; gives the test accuracy."""
    import torch
    from torch.nn import functional as F

    from raycipe.framework.registry import make

    torch.set_num_threads(1)
    data = make("data/digits")
    splits = data.load(seed)
    torch.manual_seed(seed)
    model = make("models/mlp", data.facts, hidden=[64])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x, y = splits["train"].tensors["x"], splits["train"].tensors["y"]
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        test = splits["test"].tensors
        return float((model(test["x"]).argmax(dim=1) == test["y"]).double().mean())


def loop(runs: int) -> float:
    import ray

    began = time.perf_counter()
    task = ray.remote(num_cpus=1)(by_hand)
    ray.get([task.remote(seed) for seed in range(runs)])
    return time.perf_counter() - began


def study(runs: int, folder: Path) -> float:
    from raycipe.launchers import cli

    file = folder / "bench.yaml"
    file.write_text(RECIPE + f"study: {{type: repeat, metric: test/accuracy, seeds: {runs}}}\n")
    began = time.perf_counter()
    code = cli.launch([str(file), "--storage", str(folder / "runs"), "-q"])
    assert code == 0
    return time.perf_counter() - began


def folds_of_raycipe(folds: int) -> float:
    import numpy as np

    from raycipe.framework.registry import make
    from raycipe.framework.tables import table
    from raycipe.launchers.fan_out import Places, fan_out
    from raycipe.launchers.tasks_estimator import folds_of, score_fold

    data = make("data/digits")
    train = table(data.load(0)["train"])
    section = {"type": "sklearn", "name": "RandomForestClassifier", "arguments": FOREST}
    shared: dict[str, Any] = {
        "recipe": {"estimator": section, "seed": 0},
        "facts": data.facts,
        "train": train,
        "roots": [],
    }
    held_out = folds_of(train, data.facts, folds, 0)
    began = time.perf_counter()
    scores = fan_out(score_fold, shared, held_out, Places(2, {"num_cpus": 1}))
    seconds = time.perf_counter() - began
    assert np.mean([each["accuracy"] for each in scores]) > 0.9
    return seconds


def folds_of_joblib(folds: int) -> float:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold, cross_validate

    from raycipe.framework.registry import make
    from raycipe.framework.tables import table

    train = table(make("data/digits").load(0)["train"])
    model = RandomForestClassifier(**FOREST, random_state=0)
    parts = StratifiedKFold(folds, shuffle=True, random_state=0)
    scoring = ["accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr"]  # what the estimator stage scores, too
    began = time.perf_counter()
    cross_validate(model, train["X"], train["y"], cv=parts, n_jobs=2, scoring=scoring)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    pairs: dict[str, list[tuple[float, float]]] = {"study": [], "folds": []}
    with tempfile.TemporaryDirectory() as scratch:
        loop(4), study(4, Path(scratch))  # both warm: processes and imports
        folds_of_raycipe(2), folds_of_joblib(2)
        for _ in range(args.repeats):  # in turns, so that the machine's load meets both
            pairs["study"].append((study(args.runs, Path(scratch)), loop(args.runs)))
            pairs["folds"].append((folds_of_raycipe(args.folds), folds_of_joblib(args.folds)))
    ray.shutdown()
    names = {
        "study": f"{args.runs} runs of 5 epochs on the digits",
        "folds": f"{args.folds} folds of a forest of 100 trees",
    }
    print("| what | by hand, s | ours, s | median of ratios |\n|---|---|---|---|")
    for name, found in pairs.items():
        ours, theirs = (statistics.median(column) for column in zip(*found, strict=True))
        ratio = statistics.median(a / b for a, b in found)
        print(f"| {names[name]} | {theirs:.2f} | {ours:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
