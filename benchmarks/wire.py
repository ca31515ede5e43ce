"""What one exchange of a gradient costs between two processes over gloo: `python benchmarks/wire.py`.

Ours beside torch's DistributedDataParallel and its communication hooks, on one model. Bytes are what the kernel counts
on each process's connections; times are wall clock and CPU of rank 0, and mean little on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import socket
import stat
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from raycipe.framework.comm import TorchComm
from raycipe.framework.contracts import OptimizerRun
from raycipe.framework.registry import make

ACKED = 120  # offset of the acknowledged bytes in Linux's struct tcp_info
WARM = 3  # steps before the count: buckets are rebuilt, PowerSGD begins after two
OURS: dict[str, dict[str, Any]] = {
    "identity": {"type": "identity"},
    "identity, bf16": {"type": "identity", "dtype": "bf16"},
    "topk 1 %": {"type": "topk"},
    "signnorm": {"type": "signnorm"},
    "qsgd, 4 bits": {"type": "qsgd"},
    "randk 1 %, shared": {"type": "randk", "shared": True},
    "powersgd, rank 1": {"type": "powersgd", "rank": 1},
    "powersgd, rank 4": {"type": "powersgd", "rank": 4},
}
Step = Callable[[], None]


def model() -> nn.Module:
    """4.2 million weights in four matrices and their biases."""
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(4)])


def acknowledged() -> int:
    """Bytes that this process's TCP connections sent and that have arrived."""
    total = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            is_socket = stat.S_ISSOCK(entry.stat().st_mode)
        except FileNotFoundError:  # the listing's own descriptor
            continue
        if is_socket:
            with socket.socket(fileno=os.dup(int(entry.name))) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                    total += struct.unpack_from("<Q", info, ACKED)[0]
    return total


def ways(rank: int) -> Iterator[tuple[str, Step]]:
    """(name, one exchange of the gradients)."""
    for name, recipe in OURS.items():
        yield name, ours(recipe, rank)
    hooks: dict[str, tuple[Any, Any]] = {
        "DDP": (None, None),
        "DDP, fp16 hook": (dist.group.WORLD, default_hooks.fp16_compress_hook),
        "DDP, PowerSGD hook, rank 1": (rank_state(1), powerSGD_hook.powerSGD_hook),
        "DDP, PowerSGD hook, rank 4": (rank_state(4), powerSGD_hook.powerSGD_hook),
    }
    for name, (state, hook) in hooks.items():
        yield name, with_ddp(state, hook, rank)


def rank_state(rank: int) -> Any:
    return powerSGD_hook.PowerSGDState(dist.group.WORLD, rank, start_powerSGD_iter=2)


def ours(recipe: dict[str, Any], rank: int) -> Step:
    """A backward pass of one example into one buffer, as the training loop lays it, and a step."""
    network = model()
    weights = list(network.parameters())
    optimizer = make("optimizers/ef_sgd", params=weights, lr=0.01, compressor=recipe)
    optimizer.prepare(OptimizerRun(100, TorchComm(), 0, lambda: torch.zeros(())))
    buffer = torch.zeros(sum(weight.numel() for weight in weights))
    for weight, view in zip(weights, torch.split(buffer, [weight.numel() for weight in weights]), strict=True):
        weight.grad = view.view_as(weight)
    x = torch.randn(1, 1024, generator=torch.Generator().manual_seed(rank))

    def step() -> None:
        buffer.zero_()
        network(x).square().sum().backward()
        optimizer.step()

    return step


def with_ddp(state: Any, hook: Any, rank: int) -> Step:
    """A backward pass and a step; the pass alone is measured apart and taken off by whoever reads the table."""
    wrapped = DistributedDataParallel(model(), bucket_cap_mb=100, gradient_as_bucket_view=True)
    if hook is not None:
        wrapped.register_comm_hook(state, hook)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
    x = torch.randn(1, 1024, generator=torch.Generator().manual_seed(rank))

    def step() -> None:
        optimizer.zero_grad()
        wrapped(x).square().sum().backward()
        optimizer.step()

    return step


def work(rank: int, folder: str, steps: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    dense = 4 * sum(weight.numel() for weight in model().parameters())
    if rank == 0:
        print("| exchange | bytes a worker | of DDP's | wall ms | CPU ms |\n|---|---|---|---|---|", flush=True)
    for name, step in ways(rank):
        for _ in range(WARM):
            step()
        dist.barrier()
        sent, started, cpu = acknowledged(), time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        wall, busy = time.perf_counter() - started, time.process_time() - cpu
        dist.barrier()
        count = (acknowledged() - sent) / steps
        if rank == 0:
            times = f"{1e3 * wall / steps:.0f} | {1e3 * busy / steps:.0f}"
            print(f"| {name} | {count:,.0f} | 1/{dense / count:.1f} | {times} |", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(work, (folder, args.steps), nprocs=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
