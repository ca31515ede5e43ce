"""Run every benchmark and write docs/benchmarks.md: `make bench`. Takes several minutes; leave the machine alone."""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from raycipe.framework.provenance import cpu_model, installed

TOP = Path(__file__).parents[1]
PARTS = {
    ("overhead", "step"): """\
## A training step against a bare torch loop

The digits, batches of 64, SGD with a cosine schedule, loss and accuracy, a row each 50 steps; one process, one thread.
CPU time of a step; both loops train the same weights, step by step in random order, with an allocator that keeps freed
memory. 120 blocks of 50 steps. Bound: 60 µs more than bare.
""",
    ("overhead", "ray"): """\
## A training step against Ray Train by hand

Two workers, DDP as Ray's manual writes it against our loop, median wall time of a step over blocks of 50. Bound: ratio
1.01. Ours reduces one flat buffer instead of DDP's buckets, and indexes batches instead of collating them.
""",
    ("overhead", "launch"): """\
## From the command to the first step

`launch recipes/quickstart.yaml`, which checks the recipe, loads the data and makes the run folder, against a Ray Train
script by hand with Ray's defaults; two workers each. Bounds: no later than by hand; without workers under 4 s.
""",
    ("sweep",): """\
## Trials of a sweep

Five epochs of a small network on the digits, a trial each: the same training by hand in a Tune function whose actors
Tune reuses, and in Optuna's own loop. By hand nothing is kept; ours leaves a run folder with checkpoints. Two trials at
a time (Optuna: one). From the first trial's start to the last one's end. Bound: 0.95 of by hand.
""",
    ("rl",): """\
## Environment steps of reinforcement learning

PPO on HalfCheetah-v5: `launch` against RLlib by hand and against PPO in one file, with the same settings and networks;
one process, one thread, blocks of one iteration (2,048 steps) that alternate. Bound: 0.98 of RLlib by hand.
""",
    ("wire",): """\
## One exchange of a gradient

4.2 million weights between two processes over gloo on loopback, beside torch's DDP with its communication hooks.
Bytes are the kernel's count on each process's connections. Every row holds a backward pass of one example and an SGD
step. Bounds: topk 1 % 1/105 of DDP's bytes, signnorm 1/30, powersgd within 5 % of the hook's, identity 1.1 of its CPU.
""",
    ("compressors",): """\
## Compressors against the obvious ways to write them

One thread, least CPU time of runs that alternate; `bound` is on the ratio.
""",
    ("minimax",): """\
## Minimax optimizers

One process, one thread, CPU time, least of alternating blocks.
""",
    ("zboost",): """\
## Z-boosting

Boosters of 200 stumps, one process and thread: CPU seconds; false negatives at fixed false positives; the worst learner
that keeps a promise; amplification; the exact test.
""",
    ("inverse", "product"): """\
## Inverse curvature times a vector

A product with the whole curvature of 512 images, least CPU time of rounds that alternate. Bounds: 1.1 of the faster
peer, a tenth of the whole product for the last layer.
""",
    ("inverse", "memory"): "",
    ("inverse", "solver"): "",
    ("fanout",): """\
## Many small runs, and cross-validation

Twelve runs of a `repeat` study against a loop of Ray tasks that trains the same and keeps nothing; ours leaves a run
folder with checkpoints each. Ten folds of an estimator against scikit-learn's `cross_val_score` with joblib.
""",
    ("causal",): """\
## Causal effects

Average effects (all worlds) and effects as functions (pointwise, on 300 fresh rows) beside doubleml and econml: the
same data sets of 1000 rows, the same folds (econml draws its own), the same ridge and logistic regressions of
scikit-learn on squares and products. CPU seconds of a fit, which are mostly those regressions.
""",
    ("measures",): """\
## Curvature and magnitude

Hessian-vector products, eigenvalues, trace and magnitude; a peer stands beside them where its packages were installed
(see the head of benchmarks/measures.py). One thread, least CPU time of runs that alternate.
""",
    ("startup",): "",
}

HEAD = """\
# Benchmarks

Written by `make bench`: each figure stands beside its peer's from the same run. Times are of one machine; the
ratios are what to look at.

{date} · {cpu} · Python {python} · torch {torch} · Ray {ray} · load before the run {load}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter with the packages of constraints-peers.txt")
    args = parser.parse_args()
    packages = installed()
    load = Path("/proc/loadavg")
    text = HEAD.format(
        date=datetime.now(UTC).date(),
        cpu=cpu_model(),
        python=platform.python_version(),
        torch=packages.get("torch"),
        ray=packages.get("ray"),
        load=load.read_text().split()[0] if load.exists() else "unknown",
    )
    for (part, *words), about in PARTS.items():
        command = [sys.executable, str(Path(__file__).with_name(f"{part}.py")), *words]
        if part in ("startup", "causal") and args.peers:
            command += ["--peers", args.peers]
        print(part, *words, "...", flush=True)
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=TOP)
        text += f"\n{about}\n{done.stdout.strip()}\n" if about else f"\n{done.stdout.strip()}\n"
    (TOP / "docs" / "benchmarks.md").write_text(text)
    print(TOP / "docs" / "benchmarks.md")


if __name__ == "__main__":
    main()
