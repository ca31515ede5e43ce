"""Measures of curvature and magnitude against the libraries that a user would take instead.

    pip install --no-deps --target PEERS curvlinops-for-pytorch==3.0.1 pyhessian==0.1 magnipy==1.0.0 \
        einops einconv linear_operator jaxtyping wadler_lindig numexpr krypy tqdm
    python benchmarks/measures.py [--peers PEERS] [--repeats 5]

One process, one thread, CPU time, least of runs that alternate. A peer that is not there is left out.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.measures import _magnitude as magnitude
from raycipe.framework.curvature import Curvature, extremes, hutchinson, probe

Row = tuple[str, dict[str, float], str]


def seconds(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """The least CPU time of each way, taken in turns; each runs once before."""
    found = {name: float("inf") for name in ways}
    for way in ways.values():
        way()
    for _ in range(repeats):
        for name, way in ways.items():
            began = time.process_time()
            way()
            found[name] = min(found[name], time.process_time() - began)
    return found


def peer(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def network() -> tuple[nn.Module, dict[str, Tensor]]:
    """A tanh network of 8,970 weights on 512 examples, a little trained."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    batch = {"x": torch.randn(512, 64), "y": torch.randint(0, 10, (512,))}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(30):
        optimizer.zero_grad()
        loss(model, batch).backward()
        optimizer.step()
    return model, batch


def loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])


def products(repeats: int) -> list[Row]:
    model, batch = network()
    ours = Curvature(model, loss, [batch], dtype=torch.float32)
    v = probe(ours.size, torch.Generator().manual_seed(0), dtype=torch.float32)
    ways: dict[str, Callable[[], Any]] = {"ours": lambda: [ours.product(v) for _ in range(20)]}
    data = [(batch["x"], batch["y"])]
    curvlinops, pyhessian = peer("curvlinops"), peer("pyhessian")
    answers = {}
    if curvlinops:
        named = dict(model.named_parameters())
        parameters = named if _takes_names(curvlinops) else list(named.values())
        theirs = curvlinops.HessianLinearOperator(
            model, nn.CrossEntropyLoss(), parameters, data, check_deterministic=False
        )
        ways["curvlinops"] = lambda: [theirs @ v for _ in range(20)]
        answers["curvlinops"] = theirs @ v
    if pyhessian:
        utils = importlib.import_module("pyhessian.utils")
        gradients = torch.autograd.grad(loss(model, batch), list(model.parameters()), create_graph=True)
        parts = [p.view(q.shape) for p, q in zip(v.split([q.numel() for q in gradients]), gradients, strict=True)]
        product = lambda: utils.hessian_vector_product(gradients, list(model.parameters()), parts)  # noqa: E731
        ways["pyhessian"] = lambda: [product() for _ in range(20)]
        answers["pyhessian"] = torch.cat([part.reshape(-1) for part in product()])
    mine = ours.product(v)
    error = max((float((mine - a.reshape(-1)).norm() / mine.norm()) for a in answers.values()), default=0.0)
    found = {name: value / 20 for name, value in seconds(ways, repeats).items()}
    return [("one Hessian product, float32, ms", _times(found, 1e3), f"same to {error:.0e}")]


def _takes_names(curvlinops: Any) -> bool:
    """Later versions take a dict of parameters by name."""
    import inspect

    return "dict" in str(inspect.signature(curvlinops.HessianLinearOperator.__init__)).lower()


def eigenvalues(repeats: int) -> list[Row]:
    model, batch = network()
    exact = extremes(Curvature(model, loss, [batch]).product, _start(model), 5, 0, 400, 1e-10).values[-5:]
    got: dict[str, Tensor] = {}

    def mine() -> None:
        operator = Curvature(model, loss, [batch], dtype=torch.float32)
        got["ours"] = extremes(operator.product, _start(model).float(), 5, 0, 200, 1e-5).values[-5:]

    ways: dict[str, Callable[[], Any]] = {"ours": mine}
    pyhessian = peer("pyhessian")
    if pyhessian:

        def power() -> None:
            there = pyhessian.hessian(model, nn.CrossEntropyLoss(), data=(batch["x"], batch["y"]), cuda=False)
            got["pyhessian"] = torch.tensor(there.eigenvalues(top_n=5)[0]).double().sort().values

        ways["pyhessian"] = power
    found = seconds(ways, max(1, repeats // 2))
    errors = ", ".join(f"{name} {float(((v - exact) / exact).abs().max()):.0e}" for name, v in got.items())
    return [("five largest eigenvalues, ms", _times(found, 1e3), f"relative error: {errors}")]


def _start(model: nn.Module) -> Tensor:
    size = sum(p.numel() for p in model.parameters())
    return probe(size, torch.Generator().manual_seed(1), "gaussian")


def trace(repeats: int) -> list[Row]:
    model, batch = network()
    exact = float(Curvature(model, loss, [batch]).matrix().trace())
    got = {}

    def mine() -> None:
        operator = Curvature(model, loss, [batch], dtype=torch.float32)
        stream = torch.Generator().manual_seed(2)
        drawn = torch.stack([probe(operator.size, stream, dtype=torch.float32) for _ in range(100)])
        got["ours"] = float(torch.cat([hutchinson(operator.product, part) for part in drawn.split(4)]).mean())

    ways: dict[str, Callable[[], Any]] = {"ours": mine}
    pyhessian = peer("pyhessian")
    if pyhessian:

        def theirs() -> None:
            there = pyhessian.hessian(model, nn.CrossEntropyLoss(), data=(batch["x"], batch["y"]), cuda=False)
            got["pyhessian"] = float(np.mean(there.trace(maxIter=100)))

        ways["pyhessian"] = theirs
    found = seconds(ways, max(1, repeats // 2))
    errors = ", ".join(f"{name} {abs(value - exact) / abs(exact):.1e}" for name, value in got.items())
    return [("trace, at most 100 probes, ms", _times(found, 1e3), f"relative error: {errors}")]


def magnitudes(repeats: int) -> list[Row]:
    import scipy.integrate

    if not hasattr(scipy.integrate, "trapz"):
        scipy.integrate.trapz = scipy.integrate.trapezoid  # magnipy 1.0.0 asks for the name that SciPy has removed
    compute = peer("magnipy.magnitude.compute")
    rows: list[Row] = []
    for n in (500, 1000, 2000):
        points = np.random.default_rng(0).normal(size=(n, 10))
        scales = np.geomspace(0.1, 10, 10)
        got: dict[str, np.ndarray] = {}

        def mine(points: np.ndarray = points, scales: np.ndarray = scales, got: dict[str, np.ndarray] = got) -> None:
            tensor = torch.from_numpy(points)
            between = magnitude.distances(tensor, tensor)
            got["ours"] = np.array([magnitude.weighting(between, float(t)).magnitude for t in scales])

        ways: dict[str, Callable[[], Any]] = {"ours": mine}
        if compute:

            def theirs(
                points: np.ndarray = points, scales: np.ndarray = scales, got: dict[str, np.ndarray] = got
            ) -> None:
                got["magnipy"] = np.asarray(compute.compute_magnitude(points, ts=scales)[0])

            ways["magnipy"] = theirs
        found = seconds(ways, repeats)
        same = f"same to {np.abs(got['ours'] / got['magnipy'] - 1).max():.0e}" if compute else ""
        rows.append((f"magnitude at 10 scales, n = {n}, ms", _times(found, 1e3), same))
    return rows


def left_out(repeats: int) -> list[Row]:
    n = 1000
    points = torch.randn(n, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    between = magnitude.distances(points, points)
    closed = lambda: magnitude.left_out(magnitude.weighting(between, 1.0, with_inverse=True))  # noqa: E731
    chosen = list(range(0, n, 50))

    def refits() -> list[float]:
        found = []
        for i in chosen:
            others = torch.arange(n) != i
            weights = magnitude.weighting(between[others][:, others], 1.0).weights
            found.append(float(magnitude.potential(between[i : i + 1, others], 1.0, weights)))
        return found

    error = float((closed()[chosen] - torch.tensor(refits(), dtype=torch.float64)).abs().max())
    found = seconds({"ours": closed, "refits": refits}, max(1, repeats // 2))
    found["refits"] *= n / len(chosen)
    return [
        (f"potentials left out, n = {n}, ms", _times(found, 1e3), f"same to {error:.0e}; refits from {len(chosen)}")
    ]


def _times(found: dict[str, float], unit: float) -> dict[str, float]:
    return {name: value * unit for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="FOLDER", help="where the peers were installed")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.peers:
        sys.path.append(args.peers)
    print("| what | ours | peer | ratio, peer / ours | agreement |\n|---|---|---|---|---|")
    for part in (products, eigenvalues, trace, magnitudes, left_out):
        for what, found, note in part(args.repeats):
            ours = found.pop("ours")
            for name, value in found.items() or {"none": float("nan")}.items():
                print(f"| {what} | {ours:.3g} | {name} {value:.3g} | {value / ours:.2f} | {note} |", flush=True)


if __name__ == "__main__":
    main()
