"""What the training loop and the launch cost, against the same thing written by hand.

    python benchmarks/overhead.py step          # against a bare torch loop, in one process
    python benchmarks/overhead.py ray           # against a hand-written Ray Train loop, two workers
    python benchmarks/overhead.py launch        # launch to first step, against a hand-written Ray Train script

Measurements take turns since the machine's speed changes from minute to minute; times are CPU times
of the process where one process does the work. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

SIZES = {"small": [128, 128], "medium": [1000, 1000]}
BATCH = 64
BLOCK = 50
ROUNDS = 120
HERE = Path(__file__).parent


def recipe(hidden: list[int], **changes: Any) -> dict[str, Any]:
    """A recipe with loss, accuracy, schedule and a row per 50 steps; nothing else is due while it is measured."""
    return {
        "recipe": 1,
        "name": "overhead",
        "seed": 0,
        "data": {"type": "digits"},
        "model": {"type": "mlp", "hidden": hidden},
        "task": {"type": "classification"},
        "optimizer": {"type": "sgd", "lr": 0.01, "schedule": {"type": "cosine"}},
        "train": {"steps": 10**6, "batch_size": BATCH, "eval_every": 10**6, "checkpoint_every": 10**6},
        "resources": {"num_workers": 0},
        **changes,
    }


# ------------------------------------------------------------------------------------------------ (a) bare torch


def our_loop(hidden: list[int]) -> Any:
    """A session of the training loop; `advance` is one step."""
    import torch

    from raycipe.framework.comm import LocalComm
    from raycipe.framework.training.plan import Settings, TrainPlan
    from raycipe.framework.training.session import Session
    from raycipe.framework.training.signals import Watch

    folder = tempfile.mkdtemp()
    plan = TrainPlan(recipe(hidden), folder)
    session = Session(plan, Settings.of(plan.recipe), LocalComm(), torch.device("cpu"), [], None, None)
    session.watch = Watch(folder, session.news).__enter__()
    session.begin()
    return session


def bare_loop(model: Any) -> Callable[[], None]:
    """One step with the same model and data in plain torch."""
    import torch

    from raycipe.framework.registry import build

    tensors = build({"type": "digits"}, "data").load(0)["train"].tensors
    x, y = tensors["x"], tensors["y"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)

    def batches() -> Any:
        while True:
            permutation = torch.randperm(len(x))
            for start in range(0, len(x) - BATCH + 1, BATCH):
                yield permutation[start : start + BATCH]

    order = batches()

    def step() -> None:
        ids = next(order)
        loss = torch.nn.functional.cross_entropy(model(x.index_select(0, ids)), y.index_select(0, ids))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def block(chance: random.Random, steps: list[Callable[[], None]]) -> list[float]:
    """µs of CPU a step of each, over a block in which they take turns in random order."""
    spent = [0.0] * len(steps)
    for _ in range(BLOCK):
        for place in chance.sample(range(len(steps)), len(steps)):
            started = time.process_time()
            steps[place]()
            spent[place] += time.process_time() - started
    return [seconds / BLOCK * 1e6 for seconds in spent]


def with_kept_memory() -> None:
    """Start this process again with an allocator that keeps freed memory.

    glibc gives gradients of some megabytes back to the system in some steps and not in others, and the page faults cost
    more than what is measured.
    """
    settings = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**31)}
    if not settings.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **settings})


def measure_steps() -> None:
    """Both loops step the same weights, each in turn: where weights lie in memory moves a step by more than a loop."""
    import torch

    torch.set_num_threads(1)
    chance = random.Random(0)
    print("| model | bare, µs CPU a step | bare again | ours | extra, paired median | of 95 % |")
    print("|---|---|---|---|---|---|")
    for name, hidden in SIZES.items():
        session = our_loop(hidden)
        steps = [bare_loop(session.model), bare_loop(session.model), session.advance]
        block(chance, steps)
        times = [block(chance, steps) for _ in range(ROUNDS)]
        pairs = [ours - (bare + again) / 2 for bare, again, ours in times]
        medians = sorted(statistics.median(chance.choices(pairs, k=ROUNDS)) for _ in range(2000))
        cells = " | ".join(f"{statistics.median(column):.0f}" for column in zip(*times, strict=True))
        extra = f"{statistics.median(pairs):.0f} | {medians[50]:.0f} to {medians[1949]:.0f}"
        print(f"| {name} {hidden} | {cells} | {extra} |", flush=True)


# ------------------------------------------------------------------------------------------------ (a) Ray Train


def hand_written(config: dict[str, Any]) -> list[float]:
    """A Ray Train loop with DDP as its manual shows it; seconds per step of each block of 50."""
    import ray.train.torch
    import torch

    from raycipe.framework.registry import build

    torch.set_num_threads(1)
    data = build({"type": "digits"}, "data")
    tensors = data.load(0)["train"].tensors
    dataset = torch.utils.data.TensorDataset(tensors["x"], tensors["y"])
    world = ray.train.get_context().get_world_size()
    loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH // world, shuffle=True, drop_last=True)
    loader = ray.train.torch.prepare_data_loader(loader)
    model = ray.train.torch.prepare_model(
        build({"type": "mlp", "hidden": config["hidden"]}, "models", facts=data.facts)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10**6)
    times, step, started = [], 0, time.perf_counter()
    while step < config["steps"]:
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step % 50 == 0:
                times.append((time.perf_counter() - started) / 50)
                started = time.perf_counter()
    return times


def ours_on_ray(config: dict[str, Any]) -> list[float]:
    """Our loop in the same place; seconds per step of each block of 50."""
    from raycipe.framework.comm import TorchComm
    from raycipe.framework.training.plan import TrainPlan
    from raycipe.framework.training.session import train

    marks: list[float] = []

    def mark(session: Any, event: str) -> None:
        if event in ("start", "log"):
            marks.append(time.perf_counter())

    plain = recipe(config["hidden"])
    plain["train"] = {**plain["train"], "steps": config["steps"]}
    train(TrainPlan(plain, config["folder"]), TorchComm(), hooks=[mark])
    return [(after - before) / 50 for before, after in pairwise(marks)]


def measure_ray() -> None:
    import ray
    import ray.train
    from ray.train.torch import TorchTrainer

    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")

    def fit(loop: Callable[[dict[str, Any]], list[float]], hidden: list[int]) -> float:
        folder = tempfile.mkdtemp()
        config = {"hidden": hidden, "steps": 1500, "folder": folder}
        run_config = ray.train.RunConfig(storage_path=folder, name="run")
        scaling = ray.train.ScalingConfig(num_workers=2)
        times = TorchTrainer(loop, train_loop_config=config, scaling_config=scaling, run_config=run_config).fit()
        return statistics.median(times.return_value[2:]) * 1e6

    print("| model | by hand, µs a step | ours | by hand again | ratio to the mean of both |")
    print("|---|---|---|---|---|")
    for name, hidden in SIZES.items():
        first, ours, second = fit(hand_written, hidden), fit(ours_on_ray, hidden), fit(hand_written, hidden)
        ratio = ours / ((first + second) / 2)
        print(f"| {name} {hidden} | {first:.0f} | {ours:.0f} | {second:.0f} | {ratio:.2f} |")
    ray.shutdown()


# ------------------------------------------------------------------------------------------------ (b) launch

SCRIPT = """
import sys, time
import torch, ray.train
from ray.train.torch import TorchTrainer, prepare_model, prepare_data_loader
from sklearn.datasets import load_digits
def loop(config):
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True)
    loader = prepare_data_loader(loader)
    model = prepare_model(torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for a, b in loader:
        torch.nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
        if ray.train.get_context().get_world_rank() == 0:
            open(config["mark"], "w").write(str(time.time()))
        return
TorchTrainer(loop, train_loop_config={"mark": sys.argv[1]},
    scaling_config=ray.train.ScalingConfig(num_workers=2),
    run_config=ray.train.RunConfig(storage_path=sys.argv[2])).fit()
"""


def first_step_by_hand(folder: Path) -> float:
    mark = folder / "mark"
    started = time.time()
    command = [sys.executable, "-c", SCRIPT, str(mark), str(folder)]
    environment = {**os.environ, "RAY_ADDRESS": "local"}  # no cluster that somebody left on this machine
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment, timeout=120)
    return float(mark.read_text()) - started


def first_step_by_launch(folder: Path, workers: int) -> float:
    launch = Path(sys.executable).with_name("launch")
    quickstart = HERE.parent / "recipes" / "quickstart.yaml"
    command = [str(launch), str(quickstart), "-q", f"resources.num_workers={workers}", "--storage", str(folder)]
    started, first = time.time(), 0.0
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            for file in folder.glob("quickstart/2*/progress.json"):
                try:
                    first = first or json.loads(file.read_text())["first_step_at"] or 0.0
                except FileNotFoundError:  # it goes when the run ends
                    continue
            time.sleep(0.02)
    if process.returncode or not first:
        raise SystemExit(f"launch failed with exit code {process.returncode}")
    return first - started


def measure_launch(rounds: int) -> None:
    rows: dict[str, list[float]] = {"by hand": [], "launch, 2 workers": [], "launch, no worker": []}
    for _ in range(rounds):
        rows["by hand"].append(first_step_by_hand(Path(tempfile.mkdtemp())))
        rows["launch, 2 workers"].append(first_step_by_launch(Path(tempfile.mkdtemp()), 2))
        rows["launch, no worker"].append(first_step_by_launch(Path(tempfile.mkdtemp()), 0))
    print("| from the command to the first step | least, s | median, s |")
    print("|---|---|---|")
    for name, times in rows.items():
        print(f"| {name} | {min(times):.1f} | {statistics.median(times):.1f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("step", "ray", "launch"))
    parser.add_argument("--rounds", type=int, default=3, help="of the launch part")
    arguments = parser.parse_args()
    if arguments.part == "step":
        with_kept_memory()
    if arguments.part == "launch":
        measure_launch(arguments.rounds)
    else:
        {"step": measure_steps, "ray": measure_ray}[arguments.part]()
