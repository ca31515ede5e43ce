"""Minimax optimizers: zeroth-order steps, runs side by side, clipping by example, bytes sent, the loop's overhead.

    python benchmarks/minimax.py [--part zo twins clip wire overhead]

One process and thread; what is compared alternates in blocks, and CPU time is counted. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn

from raycipe.components.gradients._clip import clip
from raycipe.components.gradients._directions import DRAWS
from raycipe.components.gradients.zeroth_order import ZerothOrder
from raycipe.components.measures._twins import simulate
from raycipe.components.tasks.auc_saddle import auc_values
from raycipe.framework.comm import SimulatedWorld
from raycipe.framework.conformance.players import stand_in
from raycipe.framework.contracts import TensorSplit, Trained
from raycipe.framework.registry import build, make
from raycipe.framework.training.plan import TrainPlan
from raycipe.framework.training.session import Session, train

BLOCKS = 5


def cpu_ms(work: Callable[[], Any], times: int) -> float:
    """CPU milliseconds of one call, over a block of them."""
    started = time.process_time()
    for _ in range(times):
        work()
    return 1000 * (time.process_time() - started) / times


def least(*works: tuple[Callable[[], Any], int]) -> list[float]:
    """The least block of each, blocks alternating."""
    for work, _ in works:
        work()
    rounds = [[cpu_ms(work, times) for work, times in works] for _ in range(BLOCKS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def ranking(dim: int, batch_size: int) -> tuple[Any, Any, Any]:
    """A linear AUC problem of one batch: (problem, saddle, batch)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch_size, dim, generator=generator)
    y = (torch.arange(batch_size) % 2).long()
    splits = {"train": TensorSplit({"x": x, "y": y})}
    task = make("tasks/auc_saddle", p=0.5)
    saddle = task.trained(make("models/linear", num_features=dim, num_outputs=1, bias=False), splits)
    optimizer = make("optimizers/sgda", params=saddle.groups())
    batch = {"x": x, "y": y, "id": torch.arange(batch_size)}
    problem: Any = stand_in(task, saddle, optimizer, batch, splits)
    problem.session.again(problem.session.current)
    return problem, saddle, batch


# ---------------------------------------------------------------------------------------------- zeroth order


def zo() -> None:
    """One estimate of w's gradient, K = 64 central, against a loop that moves the module's parameters K times."""
    print("| d | loop over K, ms CPU | gauss | ratio | rademacher | gauss to rademacher |\n|---|---|---|---|---|---|")
    for dim, times in ((66, 20), (1000, 10), (100_000, 1)):
        problem, saddle, batch = ranking(dim - 2, 1)
        w, v = problem.point()
        loop, gauss, rademacher = least(
            (lambda p=problem, s=saddle, b=batch: by_loop(p, s, b, 64, 1e-4), max(1, times // 5)),
            (lambda p=problem, w=w, v=v: ZerothOrder(64, mu=1e-4).estimate(p, w, v, "w"), times),
            (
                lambda p=problem, w=w, v=v: ZerothOrder(64, mu=1e-4, direction="rademacher").estimate(p, w, v, "w"),
                times,
            ),
        )
        ratio, cheaper = loop / gauss, gauss / rademacher
        print(f"| {dim:,} | {loop:.2f} | {gauss:.2f} | {ratio:.1f} | {rademacher:.2f} | {cheaper:.2f} |", flush=True)


def by_loop(problem: Any, saddle: nn.Module, batch: Any, count: int, mu: float) -> Tensor:
    """The same estimate, direction by direction, through the module's own parameters."""
    w, v = problem.point()
    total = torch.zeros_like(w)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(count):
            u = DRAWS["gauss"](1, len(w), w, generator)[0]
            values = []
            for sign in (1, -1):
                problem.flat.write(w + sign * mu * u, v)
                values.append(problem.task.evaluate(saddle, batch)[0].mean())
            total += (values[0] - values[1]) / (2 * mu) * u
    problem.flat.write(w, v)
    return total / count


# ---------------------------------------------------------------------------------------------- side by side


def recipe(optimizer: dict[str, Any], examples: int) -> dict[str, Any]:
    return {
        "seed": 0,
        "data": {"type": "gauss_auc", "examples": examples, "test": 50},
        "model": {"type": "linear", "num_outputs": 1, "bias": False, "zero_init": True},
        "task": {"type": "auc_saddle"},
        "optimizer": optimizer,
        "train": {"epochs": 1, "batch_size": 1, "log_every": 1000},
    }


def twins(examples: int = 2048) -> None:
    """8 seeds x 7 models at once against one run of the loop, times 56."""
    plan = recipe({"type": "sgda", "lr": 1.0, "schedule": "theory"}, examples)
    data = build(plan["data"], "data")
    splits = data.load(0)
    task = build(plan["task"], "tasks")
    saddle = task.trained(build(plan["model"], "models", facts=data.facts), splits)
    trained = Trained(recipe=plan, splits=splits, facts=data.facts, model=saddle, task=task)
    started = time.process_time()
    simulate(trained, seeds=8, twins=6, points=1)
    together = time.process_time() - started
    steps = _steps_of_the_loop(plan, examples)
    print("| 8 seeds x 7 models, n = T = 2048 | s CPU |\n|---|---|")
    print(f"| side by side | {together:.1f} |\n| 56 runs of the loop (one, times 56; steps alone) | {56 * steps:.1f} |")
    print(f"| ratio | {56 * steps / together:.1f} |", flush=True)


def _steps_of_the_loop(plan: dict[str, Any], count: int) -> float:
    session = _session(plan)
    for _ in range(50):
        session._train_step()
    started = time.process_time()
    for _ in range(count - 50):
        session._train_step()
    return (time.process_time() - started) * count / (count - 50)


def _session(plan: dict[str, Any]) -> Any:
    from types import SimpleNamespace

    from raycipe.framework.comm import LocalComm
    from raycipe.framework.training.plan import Settings

    folder = Path(tempfile.mkdtemp())
    (folder / "checkpoints").mkdir()
    session: Any = Session(
        TrainPlan(plan, str(folder)), Settings.of(plan), LocalComm(), torch.device("cpu"), (), None, None
    )
    session.watch = SimpleNamespace(requested=False)
    session.begin()
    return session


# ---------------------------------------------------------------------------------------------- the rest


def clips() -> None:
    """Each example's gradient clipped, against the plain gradient of the batch; a linear model, batch 64."""
    print("| d | plain, ms CPU | clipped by example | ratio |\n|---|---|---|---|")
    for dim in (64, 1000):
        problem, _, _ = ranking(dim, 64)

        def plain(problem: Any = problem) -> Any:
            w, v = problem.point()
            return torch.func.grad(lambda a, b: problem.flat.value(a, b, problem.session.batch).mean(), argnums=(0, 1))(
                w, v
            )

        def by_example(problem: Any = problem) -> Any:
            per_w, per_v = problem.sample_gradients(*problem.point())
            return clip(per_w, 1.0)[0].mean(0), clip(per_v, 1.0)[0].mean(0)

        one, many = least((plain, 40), (by_example, 40))
        print(f"| {dim:,} | {one:.2f} | {many:.2f} | {many / one:.2f} |", flush=True)


def wire() -> None:
    """Bytes that a worker sends in a zeroth-order step of K = 16, two workers."""
    print("| d | bytes a step, K = 16 | 16 K |\n|---|---|---|")
    for dim in (1000, 100_000, 1_000_000):
        plan = recipe({"type": "zo_sgda", "lr": 0.001, "points": 16}, 8)
        plan["data"].update(dim=dim, test=40)
        plan["train"].update(batch_size=2, epochs=1)
        sent: dict[int, float] = {}
        folder = Path(tempfile.mkdtemp())
        (folder / "checkpoints").mkdir()

        def look(session: Any, event: str, sent: dict[int, float] = sent) -> None:
            if event == "end":
                sent[session.comm.rank] = session.optimizer_comm.bytes_sent / session.step

        def work(comm: Any, plan: Any = plan, folder: Path = folder) -> Any:
            return train(TrainPlan(plan, str(folder)), comm, hooks=[look])

        SimulatedWorld(2).run(work)
        print(f"| {dim + 3:,} | {sent[0]:.0f} | {16 * 16} |", flush=True)


def overhead() -> None:
    """A step of sgda in the loop against torch.optim.SGD for each player, written by hand."""
    rows = []
    for dim, batch_size in ((64, 1), (64, 64), (1000, 64)):
        plan = recipe({"type": "sgda", "lr": 1e-3, "average": "none"}, 4096)
        plan["data"].update(dim=dim)
        plan["train"].update(batch_size=batch_size, epochs=100)
        session = _session(plan)
        bare = _by_hand(session.splits["train"].tensors, dim, batch_size)
        hand, ours, again = least((bare, 100), (session._train_step, 100), (bare, 100))
        ratio = 2 * ours / (hand + again)
        cells = [dim, batch_size, f"{1000 * hand:.0f}", f"{1000 * ours:.0f}", f"{1000 * again:.0f}", f"{ratio:.2f}"]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    print(
        "| d | batch | two torch.optim.SGD by hand, µs CPU | ours | by hand again | ratio |\n|---|---|---|---|---|---|"
    )
    print("\n".join(rows), flush=True)


def _by_hand(tensors: Any, dim: int, batch_size: int) -> Callable[[], None]:
    model = nn.Linear(dim, 1, bias=False).double()
    a, b, c = (nn.Parameter(torch.zeros((), dtype=torch.float64)) for _ in range(3))
    descent = torch.optim.SGD([*model.parameters(), a, b], lr=1e-3)
    ascent = torch.optim.SGD([c], lr=1e-3, maximize=True)
    x, y = tensors["x"], tensors["y"]
    order = cycle(torch.randperm(len(x)).split(batch_size))

    def step() -> None:
        ids = next(order)
        s = model(x[ids].double())[:, 0]
        loss = auc_values(s, (y[ids] == 1).double(), a, b, c, 0.3).mean()
        descent.zero_grad()
        ascent.zero_grad()
        loss.backward()
        descent.step()
        ascent.step()
        with torch.no_grad():  # both players' bounds
            players = [model.weight, a, b]
            norm = torch.sqrt(sum(part.square().sum() for part in players))
            torch._foreach_mul_(players, 10.0 / max(10.0, float(norm)))
            c.clamp_(-10, 10)

    return step


PARTS = {"zo": zo, "twins": twins, "clip": clips, "wire": wire, "overhead": overhead}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="*", default=list(PARTS), choices=list(PARTS))
    torch.set_num_threads(1)
    for part in parser.parse_args().part:
        print(f"\n{part}\n")
        PARTS[part]()


if __name__ == "__main__":
    main()
