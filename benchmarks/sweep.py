"""Trials per minute of a sweep of small trainings, against the same training by hand in a Tune function and in Optuna.

    python benchmarks/sweep.py [--trials 24]

The digits, a 64-wide network, five epochs of batches of 64 with an evaluation each, one thread a trial, two trials at a
time (Optuna's own loop: one). By hand nothing is left behind; ours leaves a run folder with a checkpoint. The
time runs from the first trial's start to the last one's end, so that starting Ray and importing torch count for nobody.
Runs alternate (by hand, ours, by hand); prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
EPOCHS, BATCH, WIDTH = 5, 64, 64
SPACE = (1e-3, 1.0)
RECIPE = f"""
recipe: 1
name: sweep_benchmark
data: {{type: digits}}
model: {{type: mlp, hidden: [{WIDTH}]}}
task: classification
optimizer: {{type: sgd, lr: 0.1}}
train: {{epochs: {EPOCHS}, batch_size: {BATCH}}}
resources: {{num_workers: 0}}
sweep:
  space: {{optimizer.lr: {{loguniform: [{SPACE[0]}, {SPACE[1]}]}}}}
  metric: val/loss
  mode: min
  trials: TRIALS
"""


def load_data() -> tuple[dict[str, Any], dict[str, Any]]:
    from raycipe.framework.registry import build

    data = build({"type": "digits"}, "data")
    splits = {name: split.tensors for name, split in data.load(0).items()}
    return splits, data.facts


def by_hand(lr: float, report: Callable[[float], None], data: Any = None) -> float:
    """The training of a trial in plain torch: data, model, five epochs, an evaluation after each, a test at the end.

    `data` is what `load_data` gives, where it is kept between the trials.
    """
    import torch

    from raycipe.framework.registry import build

    torch.set_num_threads(1)
    torch.manual_seed(0)
    splits, facts = data or load_data()
    model = build({"type": "mlp", "hidden": [WIDTH]}, "models", facts=facts)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, fused=True)
    x, y = splits["train"]["x"], splits["train"]["y"]

    def score(split: str) -> float:
        with torch.no_grad():
            output = model(splits[split]["x"])
            return float(torch.nn.functional.cross_entropy(output, splits[split]["y"]))

    for _ in range(EPOCHS):
        order = torch.randperm(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            ids = order[start : start + BATCH]
            loss = torch.nn.functional.cross_entropy(model(x[ids]), y[ids])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        report(score("val"))
    return score("test")


def tune_by_hand(trials: int, folder: str, data: Any = None) -> float:
    """Trials per minute of a Tune function, whose actors Tune reuses; `data` is given with `tune.with_parameters`."""
    from ray import tune

    def trial(config: dict[str, Any], data: Any = None) -> None:
        started = time.time()
        by_hand(config["lr"], lambda loss: tune.report({"loss": loss, "started": started, "ended": time.time()}), data)

    found = tune.Tuner(
        tune.with_resources(tune.with_parameters(trial, data=data) if data else trial, {"CPU": 1}),
        param_space={"lr": tune.loguniform(*SPACE)},
        tune_config=tune.TuneConfig(num_samples=trials, metric="loss", mode="min", reuse_actors=True),
        run_config=tune.RunConfig(storage_path=folder, name="by-hand", verbose=0),
    ).fit()
    metrics = [result.metrics for result in found]
    began, ended = min(entry["started"] for entry in metrics), max(entry["ended"] for entry in metrics)
    return 60 * trials / (ended - began)


def ours(trials: int, folder: str) -> float:
    """Trials per minute of `launch --sweep`."""
    from raycipe.launchers.cli import launch

    file = Path(folder) / "recipe.yaml"
    file.write_text(RECIPE.replace("TRIALS", str(trials)))
    assert launch([str(file), "--sweep", "-q", "--storage", folder]) == 0
    run = next(Path(folder).glob("sweep_benchmark/2*"))
    rows = [json.loads(path.read_text()) for path in run.glob("trials/*/result.json")]
    ends = [path.stat().st_mtime for path in run.glob("trials/*/result.json")]
    first = min(path.stat().st_mtime for path in run.glob("trials/*/recipe.yaml"))  # before the training begins
    assert len(rows) == trials
    return 60 * trials / (max(ends) - first)


def optuna_by_hand(trials: int) -> float:
    """Trials per minute of Optuna's loop in this process, one trial after the other."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    started = time.time()
    study.optimize(lambda trial: by_hand(trial.suggest_float("lr", *SPACE, log=True), lambda loss: None), trials)
    return 60 * trials / (time.time() - started)


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=2)
    trials, rounds = parser.parse_args().trials, parser.parse_args().rounds
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "0")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    table, _ = os.fdopen(os.dup(1), "w"), os.dup2(2, 1)  # Tune and launch print as well
    rates: dict[str, list[float]] = {"by hand": [], "kept": [], "ours": [], "optuna": []}
    for _ in range(rounds):
        rates["by hand"].append(tune_by_hand(trials, tempfile.mkdtemp()))
        rates["ours"].append(ours(trials, tempfile.mkdtemp()))
        rates["kept"].append(tune_by_hand(trials, tempfile.mkdtemp(), load_data()))
    rates["by hand"].append(tune_by_hand(trials, tempfile.mkdtemp()))
    ray.shutdown()
    rates["optuna"].append(optuna_by_hand(trials))
    kept = statistics.median(rates["kept"])
    hand, mine = statistics.median(rates["by hand"]), statistics.median(rates["ours"])
    print("| sweep of small trainings | trials a minute | each run | ratio to by hand |", file=table)
    print("|---|---|---|---|", file=table)
    for name, key, rate in (
        ("a Tune function by hand, two at a time", "by hand", hand),
        ("the same with its data given by `tune.with_parameters`", "kept", kept),
        ("`launch --sweep`, two at a time", "ours", mine),
        ("Optuna's loop in one process, one at a time", "optuna", rates["optuna"][0]),
    ):
        each = ", ".join(f"{value:.0f}" for value in rates[key])
        print(f"| {name} | {rate:.0f} | {each} | {rate / hand:.2f} |", file=table)


if __name__ == "__main__":
    main()
