"""How the ranks' gradients become one: five ways with one interface, so that the loop never asks.

With weights w_i of the examples (or tokens) and their total w, the gradient of a step is sum_i w_i g_i / w: the exact
mean over the global batch for uneven shares, a short last batch and uneven micro-batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from raycipe.framework.comm import Comm, SimulatedComm
from raycipe.framework.contracts import Loss, Model
from raycipe.framework.errors import RunError

Scale = Callable[[Tensor], Tensor]
WARM_PASSES = 1
NOTHING = nullcontext()  # one for all: making one costs a microsecond a step


class Exchange:
    """One worker alone (`none`): gradients stay as they are.

    `flags` are two sums over ranks that ride with the gradients where that is free (`per_step_flags`): wishes to stop
    and non-finite losses.
    """

    per_step_flags = True
    collective_backward = False  # every rank must run equally many backward passes
    local_mean = False  # gradients are means over this rank's examples
    gradients_differ = False  # after the exchange ranks hold different gradients (their own, or their share)

    def __init__(self, module: nn.Module, comm: Comm) -> None:
        self.module = module  # what the task calls
        self.comm = comm
        self.parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.flags = (0.0, 0.0)
        self._weight: Tensor | None = None

    def warm(self, backward: Callable[[], None]) -> None:
        """Called once before any state is loaded, with a throw-away forward and backward pass."""

    def sync(self, last: bool) -> Any:
        """The context of one micro-batch; `last` tells that the step's gradient is complete after it."""
        return NOTHING

    def backward(self, loss: Loss, count: int, total: int, scale: Scale | None = None) -> None:
        """`count` of the `total` examples went into `loss`. A task's own weights are divided out in `finish`."""
        value = self._weighted(loss, count, total)
        (value if scale is None else scale(value)).backward()  # type: ignore[no-untyped-call]

    def _weighted(self, loss: Loss, count: int, total: int) -> Tensor:
        if loss.weight is not None:
            weight = loss.weight.detach() * (count > 0)
            self._weight = weight if self._weight is None else self._weight + weight
            return loss.value * weight
        return loss.value if count == total else loss.value * (count / total)

    def finish(self, stop: bool = False, nonfinite: bool = False) -> None:
        """Complete the gradients: exchanged, divided by the weights."""
        self.flags = (float(stop), float(nonfinite))
        if self._weight is not None:
            self._divide(self._weight)

    def _divide(self, weight: Tensor) -> None:
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        torch._foreach_div_(gradients, weight.to(gradients[0].dtype))
        self._weight = None

    def clip(self, limit: float) -> Tensor:
        """Scale the gradients to a norm of at most `limit`; gives the norm before."""
        return torch.nn.utils.clip_grad_norm_(self.parameters, limit, foreach=True)

    def zero(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def check(self) -> None:
        """Raises RunError if somebody broke what the exchange stands on; called at log events."""


class Flat(Exchange):
    """One buffer of which every `.grad` is a view, summed over ranks in one operation; restart-exact for any number of
    ranks. The buffer's end carries the flags and the weight."""

    SPARE = 3  # stop, non-finite, weight

    def __init__(self, module: nn.Module, comm: Comm) -> None:
        super().__init__(module, comm)
        kinds = {(parameter.dtype, parameter.device) for parameter in self.parameters}
        if len(kinds) != 1:
            raise RunError("recipe", f"all trained parameters need one dtype and device, not {kinds}", where="model")
        ((dtype, device),) = kinds
        size = sum(parameter.numel() for parameter in self.parameters)
        self.buffer = torch.zeros(size + self.SPARE, dtype=dtype, device=device)
        self.gradient = self.buffer[:size]
        views = torch.split(self.gradient, [parameter.numel() for parameter in self.parameters])
        for parameter, view in zip(self.parameters, views, strict=True):
            parameter.grad = view.view_as(parameter)

    def finish(self, stop: bool = False, nonfinite: bool = False) -> None:
        spare = self.buffer[-self.SPARE :]
        spare[0], spare[1] = float(stop), float(nonfinite)
        if self._weight is not None:
            spare[2], self._weight = self._weight.to(self.buffer.dtype), None
        self.comm.all_reduce(self.buffer)
        stops, bad, weight = spare.tolist()
        self.flags = (stops, bad)
        if weight > 0:
            self.gradient.div_(weight)

    def clip(self, limit: float) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((limit / (norm + 1e-6)).clamp_(max=1.0))
        return norm

    def zero(self) -> None:
        self.buffer.zero_()

    def check(self) -> None:
        where = self.gradient.data_ptr()
        for parameter in self.parameters:
            if parameter.grad is None or parameter.grad.data_ptr() != where:
                raise RunError(
                    "component",
                    "a component replaced a parameter's `.grad`, which must stay the tensor that it is",
                    "change gradients in place, and never call zero_grad(set_to_none=True) inside a step",
                )
            where += parameter.numel() * parameter.element_size()


class Own(Flat):
    """The optimizer exchanges by itself: gradients are means over this rank's examples, zero if it has none."""

    per_step_flags = False
    local_mean = True
    gradients_differ = True

    def finish(self, stop: bool = False, nonfinite: bool = False) -> None:
        self.flags = (float(stop), float(nonfinite))
        if self._weight is not None:
            self._divide(self._weight)


class DDP(Exchange):
    """torch's DistributedDataParallel: exchange overlaps with the backward pass.

    Its buckets are laid out anew after the first backward pass, so that without a warm pass a restarted run would sum
    in another order than an unbroken one.
    """

    per_step_flags = False
    collective_backward = True

    def __init__(self, module: nn.Module, comm: Comm) -> None:
        super().__init__(module, comm)
        self.wrapped = DistributedDataParallel(module, broadcast_buffers=False, gradient_as_bucket_view=True)
        self.module = self.wrapped

    def warm(self, backward: Callable[[], None]) -> None:
        for _ in range(WARM_PASSES):
            backward()
        self.zero()

    def sync(self, last: bool) -> Any:
        return NOTHING if last else self.wrapped.no_sync()

    def _weighted(self, loss: Loss, count: int, total: int) -> Tensor:
        return super()._weighted(loss, count, total) * self.comm.world_size  # DDP and FSDP take the mean over ranks

    def finish(self, stop: bool = False, nonfinite: bool = False) -> None:
        self.flags = (float(stop), float(nonfinite))
        if self._weight is not None:
            self._divide(self.comm.all_reduce(self._weight.clone()))


class FSDP(DDP):
    """torch's fully_shard: parameters, gradients and optimizer state are divided among the ranks."""

    gradients_differ = True

    def __init__(self, module: nn.Module, comm: Comm) -> None:
        shard(module, comm.world_size)
        Exchange.__init__(self, module, comm)  # after sharding: the parameters are new objects

    def sync(self, last: bool) -> Any:
        self.module.set_requires_gradient_sync(last)  # type: ignore[operator]  # fully_shard adds this method
        return NOTHING

    def warm(self, backward: Callable[[], None]) -> None:
        return

    def clip(self, limit: float) -> Tensor:
        norm: Any = super().clip(limit)
        whole: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        return whole


def shard(module: nn.Module, world_size: int) -> None:
    """Divide the parameters of `module`, in place, among all ranks (collective)."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(next(module.parameters()).device.type, (world_size,))
    blocks = module.shards() if isinstance(module, Model) else []
    owners = Counter(id(parameter) for block in blocks for parameter in set(block.parameters()))
    for block in blocks:
        if all(owners[id(parameter)] == 1 for parameter in block.parameters()):  # tied ones belong to the root
            fully_shard(block, mesh=mesh)
    fully_shard(module, mesh=mesh)


def choose(
    module: nn.Module, comm: Comm, parallel: str | None, own: bool, clips: bool, device: torch.device
) -> Exchange:
    """The exchange for a run: the optimizer's own; DDP or FSDP if asked for; else DDP on CUDA, a flat buffer on CPU."""
    if own:
        return Own(module, comm)
    if comm.world_size == 1:
        return Flat(module, comm) if clips and device.type == "cpu" else Exchange(module, comm)
    if isinstance(comm, SimulatedComm):
        return Flat(module, comm)
    if parallel == "fsdp":
        return FSDP(module, comm)
    return DDP(module, comm) if parallel == "ddp" or device.type == "cuda" else Flat(module, comm)
