"""Inverse curvature times a vector: `python benchmarks/inverse.py solver|product|memory`.

`solver`: residuals after equally many products with the same restricted curvature, beside SciPy's solvers. `product`:
the time of a product with the whole curvature, beside two backward passes by hand, torch.func and curvlinops where it
is installed. `memory`: the peak of a whole process that edits, above that of one that only trains.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.editors._case import Case
from raycipe.components.editors._objective import ModelSystem, Objective, Terrain
from raycipe.components.editors._request import change_of, right_side
from raycipe.framework.contracts import Trained
from raycipe.framework.registry import build, make
from raycipe.framework.training.again import train_again

BUDGETS = (100, 200, 400)
SOLVERS: dict[str, dict[str, Any]] = {
    "p_lissa": {"type": "p_lissa", "tol": 0},
    "p_lissa nesterov": {"type": "p_lissa", "tol": 0, "acceleration": "nesterov"},
    "p_lissa chebyshev": {"type": "p_lissa", "tol": 0, "acceleration": "chebyshev"},
    "p_lissa cgls": {"type": "p_lissa", "tol": 0, "acceleration": "cgls"},
    "minres": {"type": "minres", "tol": 0},
    "lsmr": {"type": "lsmr", "tol": 0},
    "lissa, damping .01": {"type": "lissa", "damping": 0.01},
    "lissa, damping .1": {"type": "lissa", "damping": 0.1},
    "cg, damping 0": {"type": "cg", "damping": 0, "tol": 0, "on_negative_curvature": "continue"},
    "cg, damping .01": {"type": "cg", "damping": 0.01, "tol": 0, "on_negative_curvature": "continue"},
    "cg, damping .1": {"type": "cg", "damping": 0.1, "tol": 0},
    "arnoldi": {"type": "arnoldi", "top_k": 10**6},
}


def trained_on(seed: int, hidden: list[int], epochs: int, data: dict[str, Any]) -> Trained:
    recipe = {
        "seed": seed,
        "data": data,
        "model": {"type": "mlp", "hidden": hidden, "activation": "tanh"},
        "task": {"type": "classification"},
        "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "schedule": "cosine"},
        "train": {"epochs": epochs, "batch_size": 64},
    }
    loaded = build(data, "data", "data")
    splits = loaded.load(seed)
    model = train_again(recipe, splits, loaded.facts)
    task = make("tasks/classification", num_classes=loaded.facts["num_classes"])
    return Trained(recipe=recipe, splits=splits, facts=loaded.facts, model=model, task=task, seed=seed)


def system_of(seed: int) -> tuple[Callable[[], ModelSystem], Tensor]:
    """The curvature of the digits without the 3, in the gated tenth of the parameters, and b; float64."""
    trained = trained_on(seed, [32], 40, {"type": "digits", "val": 0.15, "test": 0.3})
    case = Case.of(trained, make("forget/one_class", label=3))
    objective = Objective(case, case.model, case.stays, dtype=torch.float64)
    v = right_side(case, change_of(case, "remove", 0.0, None), objective, "influence")
    index = make("subspaces/topk").select(Terrain(case, objective, v, 2000))
    return lambda: objective.system(index), v[index]


def solver(seeds: int) -> None:
    found: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for seed in range(seeds):
        fresh, b = system_of(seed)
        matrix = fresh().matrix()
        for budget in BUDGETS:
            for name, section in SOLVERS.items():
                system = fresh()
                x = build({"max_hvp": budget, **section}, "ihvp", "ihvp").solve(system, b).x
                found.setdefault(name, {}).setdefault(budget, []).append(residuals(matrix, b, x))
            for name, x in scipy_solutions(matrix.numpy(), b.numpy(), budget).items():
                there = found.setdefault(name, {}).setdefault(budget, [])
                there.append(residuals(matrix, b, torch.from_numpy(x)))
    print(
        f"\nDigits without the 3, 10 % of 2,410 parameters, {seeds} seeds, medians: |Ax - b| / |b| and, in brackets, "
    )
    print("|A'(Ax - b)| / |A'b|.\n\n| solver | " + " | ".join(f"{budget} products" for budget in BUDGETS) + " |")
    print("|---|" + "---|" * len(BUDGETS))
    for name, by_budget in found.items():
        cells = [tuple(np.median(by_budget[budget], axis=0)) for budget in BUDGETS]
        print(f"| {name} | " + " | ".join(f"{plain:.2g} ({normal:.2g})" for plain, normal in cells) + " |")


def residuals(a: Tensor, b: Tensor, x: Tensor) -> tuple[float, float]:
    rest = a @ x - b
    return float(rest.norm() / b.norm()), float((a.T @ rest).norm() / (a.T @ b).norm())


def scipy_solutions(a: np.ndarray, b: np.ndarray, budget: int) -> dict[str, np.ndarray]:
    from scipy.sparse import linalg

    return {
        "SciPy minres": linalg.minres(a, b, rtol=0, maxiter=budget)[0],
        "SciPy lsmr": linalg.lsmr(a, b, atol=0, btol=0, conlim=0, maxiter=budget // 2)[0],
    }


# ---------------------------------------------------------------------------------------------- time


def product(rounds: int) -> None:
    print("\n| model, 512 examples | way | ms a product |\n|---|---|---|")
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.Tanh(), nn.Linear(128, 10))
    cnn = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.Tanh()),
        *(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(1568, 64), nn.Tanh(), nn.Linear(64, 10)),
    )
    batch = {"x": torch.randn(512, 1, 28, 28), "y": torch.randint(0, 10, (512,))}
    for label, model in (("mlp", mlp), ("cnn", cnn)):
        size = sum(p.numel() for p in model.parameters())
        for name, milliseconds in least(ways(model, batch), rounds).items():
            print(f"| {label}, {size:,} parameters | {name} | {milliseconds:.1f} |")


def ways(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Callable[[], Any]]:
    from torch.func import functional_call, grad, jvp

    from raycipe.framework.curvature import Curvature

    loss = lambda model, batch: F.cross_entropy(model(batch["x"]), batch["y"])  # noqa: E731
    parameters = dict(model.named_parameters())
    v = {name: torch.randn_like(p) for name, p in parameters.items()}
    flat = torch.cat([part.flatten() for part in v.values()])
    whole = Curvature(model, loss, [batch], dtype=torch.float32)
    last = list(parameters)[-2:]
    masks = {name: torch.ones_like(parameters[name], dtype=torch.bool) for name in last}
    head = Curvature(model, loss, [batch], masks=masks, dtype=torch.float32)
    small = flat[-head.size :]

    def by_hand() -> Any:
        first = torch.autograd.grad(loss(model, batch), list(parameters.values()), create_graph=True)
        return torch.autograd.grad(first, list(parameters.values()), list(v.values()))

    def value(p: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(functional_call(model, p, (batch["x"],)), batch["y"])

    found: dict[str, Callable[[], Any]] = {
        "ours": lambda: whole.product(flat),
        "ours, last layer alone": lambda: head.product(small),
        "two backward passes by hand": by_hand,
        "torch.func, forward over reverse": lambda: jvp(grad(value), (parameters,), (v,))[1],
    }
    if find_spec("curvlinops"):
        from curvlinops import HessianLinearOperator

        peer = HessianLinearOperator(
            model,
            nn.CrossEntropyLoss(),
            list(parameters.values()),
            [(batch["x"], batch["y"])],
            check_deterministic=False,
        )
        found["curvlinops"] = lambda: peer @ flat
    return found


def least(works: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Least CPU milliseconds of each, in turns."""
    found = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()
    for _ in range(rounds):
        for name, work in works.items():
            began = time.process_time()
            work()
            found[name] = min(found[name], 1e3 * (time.process_time() - began))
    return found


# ---------------------------------------------------------------------------------------------- memory

EDITS: dict[str, dict[str, Any] | None] = {
    "training alone": None,
    "gif, 10 %, p_lissa": {"type": "gif", "ihvp": {"type": "p_lissa", "max_hvp": 40}},
    "gif, last layer, p_lissa": {"type": "gif", "subspace": "last_layer", "ihvp": {"type": "p_lissa", "max_hvp": 40}},
    "influence, lissa": {"type": "influence", "ihvp": {"type": "lissa", "max_hvp": 40}},
    "influence, arnoldi of 40": {"type": "influence", "ihvp": {"type": "arnoldi", "max_hvp": 40}},
}


def memory(only: str | None) -> None:
    if only is not None:
        _edit_once(EDITS[only])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    command = [sys.executable, __file__, "memory", "--only"]
    peaks = {name: float(subprocess.check_output([*command, name], text=True).split()[-1]) for name in EDITS}
    print("\n| mlp of 269,322 parameters, 5,000 images | peak above training, MB |\n|---|---|")
    for name, peak in peaks.items():
        print(f"| {name} | {peak - peaks['training alone']:.0f} |" if name != "training alone" else f"| {name} | 0 |")


def _edit_once(section: dict[str, Any] | None) -> None:
    trained = trained_on(0, [256, 256], 1, {"type": "mnist5k"})
    if section is not None:
        more = {"forget": {"type": "one_class", "label": 4}, "strength": 1.0, "spectrum": 0}
        build({**section, **more}, "editors", "editor", facts=trained.facts).edit(trained)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["solver", "product", "memory"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="one row of memory, in this process")
    words = parser.parse_args()
    torch.set_num_threads(1)
    if words.part == "solver":
        solver(words.seeds)
    elif words.part == "product":
        product(words.rounds)
    else:
        memory(words.only)


if __name__ == "__main__":
    main()
