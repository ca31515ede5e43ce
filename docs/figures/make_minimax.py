"""Draws minimax.png into this folder and prints its numbers: paths on a game; excess risk and stability against n.

    python docs/figures/make_minimax.py [--seeds 8] [--sizes 128 512 2048]

Linear ranking of two Gaussian classes (gauss_auc, d = 64, T = n, rate c / sqrt(T) with c = 1, averaged iterate); about
a minute for each estimator and 2048 examples.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from raycipe.components.measures._twins import simulate
from raycipe.components.measures.excess_primal_risk import excesses
from raycipe.components.measures.saddle_stability import distance_of_twins
from raycipe.components.optimizers._alone import Alone
from raycipe.framework.contracts import Trained
from raycipe.framework.registry import build, make

FOLDER = Path(__file__).parent
ESTIMATORS: dict[str, dict[str, Any]] = {
    "sgda": {"type": "sgda"},
    "clipped, tau = 0.25 sqrt(n)": {"type": "clipped_sgda", "tau": 0.25},
    "zeroth order, K = 16": {"type": "zo_sgda", "points": 16},
}


def path_of(name: str, steps: int = 60) -> torch.Tensor:
    """(steps + 1, 2): w and v on f = w v from (1, 1)."""
    w, v = (torch.nn.Parameter(torch.ones(1, dtype=torch.float64)) for _ in range(2))
    groups = [{"params": [w], "role": "min"}, {"params": [v], "role": "max"}]
    optimizer = make(f"optimizers/{name}", params=groups, lr=0.1, average="none")
    points = [torch.cat(Alone(groups, None).point())]

    def closure() -> None:
        w.grad, v.grad = v.detach().clone(), w.detach().clone()

    for _ in range(steps):
        closure()
        optimizer.step(closure)
        points.append(torch.cat([w.detach(), v.detach()]))
    return torch.stack(points)


def side_by_side(optimizer: dict[str, Any], n: int, seeds: int, twins: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    """(excess risk of the average, stability of the last iterate), each (seeds,)."""
    recipe: dict[str, Any] = {
        "seed": 0,
        "data": {"type": "gauss_auc", "examples": n},
        "model": {"type": "linear", "num_outputs": 1, "bias": False, "zero_init": True},
        "task": {"type": "auc_saddle"},
        "optimizer": {"lr": 1.0, "schedule": "theory", **optimizer},
        "train": {"epochs": 1, "batch_size": 1},
    }
    if "tau" in optimizer:
        recipe["optimizer"]["tau"] = optimizer["tau"] * n**0.5
    data = build(recipe["data"], "data")
    splits, task = data.load(0), build(recipe["task"], "tasks")
    saddle = task.trained(build(recipe["model"], "models", facts=data.facts), splits)
    run = Trained(recipe=recipe, splits=splits, facts=data.facts, model=saddle, task=task)
    paths = simulate(run, seeds, twins, points=1)
    stability = sum(distance_of_twins(part) for part in paths.last[-1])
    assert isinstance(stability, torch.Tensor)
    return excesses(paths, paths.mean[-1]), stability


def slope(sizes: list[int], values: list[float]) -> float:
    x, y = (torch.tensor(part, dtype=torch.float64).log() for part in (sizes, values))
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 512, 2048])
    args = parser.parse_args()
    torch.set_num_threads(1)
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    portrait, risks, stabilities = figure.subplots(1, 3)
    for name in ("sgda", "extragradient", "ogda"):
        points = path_of(name)
        portrait.plot(points[:, 0], points[:, 1], label=name, linewidth=1)
    portrait.plot(0, 0, "k+")
    portrait.set(title="f = w v from (1, 1)", xlabel="w", ylabel="v", aspect="equal")
    portrait.legend(fontsize=8)
    for name, optimizer in ESTIMATORS.items():
        found = [side_by_side(optimizer, n, args.seeds) for n in args.sizes]
        for axes, index, title in ((risks, 0, "excess primal risk"), (stabilities, 1, "squared distance of twins")):
            means = [float(pair[index].mean()) for pair in found]
            errors = [float(pair[index].std() / args.seeds**0.5) for pair in found]
            axes.errorbar(args.sizes, means, errors, marker="o", capsize=3, label=name)
            axes.set(xscale="log", yscale="log", xlabel="n = T", title=title)
            pairs = ", ".join(f"{mean:.3g} ± {error:.1g}" for mean, error in zip(means, errors, strict=True))
            print(f"{title}: {name}: {pairs}; slope {slope(args.sizes, means):.2f}", flush=True)
    risks.legend(fontsize=8)
    figure.savefig(FOLDER / "minimax.png", dpi=110)


if __name__ == "__main__":
    main()
