"""Threads, determinism and number formats of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

from raycipe.framework.comm import Comm
from raycipe.framework.errors import RunError
from raycipe.framework.training.exchange import NOTHING, Exchange

WARN, ERROR = 1, 2  # modes of torch.set_deterministic_debug_mode; 0 is off
COMPILER = "TORCHINDUCTOR_DETERMINISTIC"


@contextmanager
def machine(threads: int, deterministic: bool, device: torch.device) -> Iterator[None]:
    """Inside, torch computes with `threads` threads, and repeats its bits if `deterministic`."""
    before = (
        torch.get_num_threads(),
        torch.get_deterministic_debug_mode(),
        torch.backends.cudnn.benchmark,
    )
    compiler = os.environ.get(COMPILER)
    torch.set_num_threads(threads)  # results depend on it: the same number with and without Ray
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts
        _set_deterministic(ERROR)
        torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        _set_deterministic(before[1])
        torch.backends.cudnn.benchmark = before[2]
        if compiler is None:
            os.environ.pop(COMPILER, None)
        else:
            os.environ[COMPILER] = compiler


def _set_deterministic(mode: int) -> None:
    """As `torch.use_deterministic_algorithms`, which imports torch's compiler (more than a second) to tell it, too.

    A compiler that is imported later reads the variable.
    """
    if "torch._inductor" in sys.modules:
        torch.use_deterministic_algorithms(mode > 0, warn_only=mode == WARN)
    else:
        torch.set_deterministic_debug_mode(mode)
        os.environ[COMPILER] = "1" if mode else "0"


def threads_of(recipe: Any) -> int:
    """`train.threads`, or the whole CPUs of one worker, at least 1."""
    chosen = (recipe.get("train") or {}).get("threads")
    cpus = (recipe.get("resources") or {}).get("cpus_per_worker") or 1
    return int(chosen or max(1, int(cpus)))


class Precision:
    """Autocast, and the loss scaling that fp16 needs."""

    def __init__(self, name: str, device: torch.device) -> None:
        if name == "fp16" and device.type == "cpu":
            raise RunError(
                "recipe",
                "fp16 is for GPUs: on a CPU it is many times slower than fp32",
                "write `precision: bf16` or `precision: fp32`",
                "train.precision",
            )
        self.dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
        self.device = device
        self.scaler = torch.amp.GradScaler(device.type) if name == "fp16" else None

    def autocast(self) -> AbstractContextManager[Any]:
        if self.dtype is None:
            return NOTHING
        return torch.autocast(self.device.type, self.dtype)

    @property
    def scale(self) -> Any:
        return None if self.scaler is None else self.scaler.scale

    def unscale(self, optimizer: torch.optim.Optimizer, exchange: Exchange, comm: Comm) -> None:
        """Undo the scaling. Ranks whose gradients differ (sharded or local ones) agree first on an overflow."""
        if self.scaler is None:
            return
        if comm.world_size > 1 and exchange.gradients_differ:
            _spread_overflow(exchange, comm)
        self.scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """One optimizer step; after an overflow none, on any rank."""
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()


def _spread_overflow(exchange: Exchange, comm: Comm) -> None:
    gradients: list[Tensor] = [p.grad for p in exchange.parameters if p.grad is not None]
    local = [getattr(gradient, "to_local", lambda gradient=gradient: gradient)() for gradient in gradients]
    norms = torch.stack(torch._foreach_norm(local))
    bad = (~torch.isfinite(norms)).any().float()
    if comm.all_reduce(bad, "max"):
        next(part for part in local if part.numel()).view(-1)[:1].fill_(float("inf"))
