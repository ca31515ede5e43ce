"""Exact evaluation: every example once, the same bits for every number of workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from raycipe.framework.comm import Comm
from raycipe.framework.contracts import Batch, Split, Task
from raycipe.framework.errors import RunError
from raycipe.framework.training.feed import in_order
from raycipe.framework.training.state import capture_rng, restore_rng

TABLE_ROWS = 4096  # batches summed together


class _Tally:
    """What one rank saw: a row of sums per batch, and the metrics that do not add up."""

    def __init__(self, task: Task, device: torch.device) -> None:
        self.task = task
        self.names: list[str] = []
        self.rows: dict[int, Tensor] = {}
        self.metrics = {name: metric.to(device) for name, metric in task.metrics().items()}

    def add(self, number: int, model: nn.Module, batch: Batch) -> None:
        loss = self.task.loss(model, batch)
        weight = loss.weight.double() if loss.weight is not None else _full(loss.value, len(batch["id"]))
        scores = self.task.scores(loss.outputs, batch)
        self.names = list(scores)
        columns = [weight, loss.value.double() * weight, *(score.double() for score in scores.values())]
        self.rows[number] = torch.stack([column.to(weight.device) for column in columns])
        if self.metrics:
            self.task.update(self.metrics, loss.outputs, batch)


def _full(like: Tensor, value: float) -> Tensor:
    return torch.full((), value, dtype=torch.float64, device=like.device)


def evaluate(
    model: nn.Module,
    split: Split,
    task: Task,
    comm: Comm,
    batch_size: int,
    device: torch.device,
    autocast: AbstractContextManager[Any] | None = None,
    collective: bool = False,
) -> dict[str, float]:
    """The task's metrics of `model` on the whole split, equal on all ranks; RNG and modes are left as they were.

    Batch j of the split, in id order, belongs to rank j mod W. `collective` models need all ranks in every forward
    pass: a rank without a batch then repeats its last one, and the result is thrown away.
    """
    rng = capture_rng()
    tally = _Tally(task, device)
    batches = -(-len(split) // batch_size)
    # FSDP keeps gathered weights for the next training step, where inference tensors are refused
    grad_off = torch.no_grad() if collective else torch.inference_mode()
    with grad_off, evaluation_mode(model), autocast or nullcontext():
        batch: Batch | None = None
        for turn, batch in enumerate(in_order(split, batch_size, device, comm.rank, comm.world_size)):
            tally.add(comm.rank + turn * comm.world_size, model, batch)
        if collective and batches % comm.world_size and comm.rank >= batches % comm.world_size:
            task.loss(model, batch if batch is not None else next(in_order(split, batch_size, device)))
        values = _reduce(tally, batches, comm, device)
    restore_rng(rng)
    return values


def _reduce(tally: _Tally, batches: int, comm: Comm, device: torch.device) -> dict[str, float]:
    states = {name: (_state(metric), metric.update_count) for name, metric in tally.metrics.items()}
    seen: list[tuple[list[str], Any]] = comm.gather_objects((tally.names, states))
    names = seen[0][0]  # rank 0 has the first batch
    total = torch.zeros(len(names) + 2, dtype=torch.float64, device=device)
    for start in range(0, batches, TABLE_ROWS):
        table = torch.zeros(min(TABLE_ROWS, batches - start), len(names) + 2, dtype=torch.float64, device=device)
        for number in range(start, start + len(table)):
            if number in tally.rows:
                table[number - start] = tally.rows[number]
        total += comm.all_reduce(table).sum(0)
    weight, *sums = total.tolist()
    values = {name: value / weight for name, value in zip(["loss", *names], sums, strict=True)}
    values.update(_merge(tally.metrics, [states for _, states in seen]))
    return tally.task.finish(values)


def _state(metric: Any) -> dict[str, Any]:
    """A metric's states, in lists of their own: `reset` empties those of the metric."""
    return {key: list(value) if isinstance(value, list) else value for key, value in metric.metric_state.items()}


def _merge(metrics: Mapping[str, Any], states: list[Mapping[str, Any]]) -> dict[str, float]:
    """Every rank's metric states put together in rank order; ranks without data are left out."""
    values = {}
    for name, metric in metrics.items():
        filled = [state[name] for state in states if state[name][1] > 0]
        if len(states) > 1:
            metric.reset()
            for state, count in filled:
                _take(metric, name, state, count)
        if filled:
            values[name] = float(metric.compute())
    return values


def _take(metric: Any, name: str, state: Mapping[str, Any], count: int) -> None:
    if metric.update_count == 0:
        for key, value in state.items():
            setattr(metric, key, value)
    else:
        own = dict(metric.metric_state)
        for key, value in state.items():  # merge_state puts what comes in before what is there
            setattr(metric, key, value)
        try:
            metric.merge_state(own)
        except RuntimeError as error:
            hint = "use one worker, or a metric whose states can be merged"
            raise RunError("component", f"metric `{name}` can't be merged over workers: {error}", hint) from error
    metric._update_count += count  # else torchmetrics warns that nothing was seen


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """eval() inside; afterwards every module is in the mode that it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def agreed_buffers(model: nn.Module, comm: Comm) -> Iterator[None]:
    """Inside, float buffers (BatchNorm's statistics) are the mean over ranks, others those of rank 0."""
    buffers = [buffer for buffer in model.buffers() if buffer.numel()]
    if comm.world_size == 1 or not buffers:
        yield
        return
    kept = [buffer.clone() for buffer in buffers]
    for buffer in buffers:
        if buffer.is_floating_point():
            comm.all_reduce(buffer, "mean")
        else:
            comm.broadcast(buffer)
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, old in zip(buffers, kept, strict=True):
                buffer.copy_(old)
