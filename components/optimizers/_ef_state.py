"""The state of ef_sgd in a checkpoint: what is equal on all workers, what is each one's own, and what becomes of the
latter when another number of workers takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from raycipe.components.optimizers._feedback import mean_of
from raycipe.components.optimizers._fragments import fill, per_parameter

if TYPE_CHECKING:
    from raycipe.components.optimizers.ef_sgd import EfSgd

SHARED = ("server_momentum", "mean_estimate")
OWN = ("momentum", "estimate", "gradient_mean")
Buffers = dict[str, list[Tensor]]


def common_state(optimizer: EfSgd) -> dict[str, Any]:
    is_averaged = optimizer.iterates.is_ready
    return {
        "count": optimizer.count,
        "closed": optimizer.closed,
        "iterates": optimizer.iterates.state(),
        "weights": [parameter.detach() for parameter in optimizer.parameters] if is_averaged else [],
        "buffers": _saved(optimizer, SHARED) if optimizer.wire else {},
        "match": optimizer.matching.state() if optimizer.matching else None,
    }


def load_common(optimizer: EfSgd, common: dict[str, Any]) -> None:
    assert optimizer.wire is not None
    optimizer.count, optimizer.closed = common["count"], common["closed"]
    optimizer.iterates.load(common["iterates"])
    if optimizer.matching and common.get("match"):
        optimizer.wire.use(optimizer.matching.load(common["match"]))
    if common["weights"] and not optimizer.closed:
        optimizer.set_weights(common["weights"])
    _fill(optimizer, common["buffers"])


def own_state(optimizer: EfSgd) -> dict[str, Any]:
    wire = optimizer.wire
    assert wire is not None
    names = ("error", *OWN) if optimizer.variant == "ef" else OWN
    own = {"compressor": [dict(one) for one in wire.states], "server": list(wire.server_errors)}
    return {"buffers": _saved(optimizer, names), **own}


def load_own(optimizer: EfSgd, mine: dict[str, Any] | None, ranks: list[dict[str, Any]]) -> None:
    """`mine` where the number of workers is unchanged, else what all of them had."""
    wire = optimizer.wire
    assert wire is not None
    if mine is not None:
        _fill(optimizer, mine["buffers"])
        for error, saved in zip(wire.server_errors, mine["server"], strict=True):
            error.copy_(saved)
    else:
        _take_over(optimizer, ranks)
    optimizer.is_owing = any(bool(error.any()) for error in optimizer.buffers["error"])
    states = (mine or ranks[wire.comm.rank % len(ranks)])["compressor"]
    for state, kept in zip(wire.states, states, strict=True):
        state.update(kept)


def _take_over(optimizer: EfSgd, ranks: list[dict[str, Any]]) -> None:
    """Another number of workers: all start from the means of the buffers, which keeps the virtual iterate."""
    wire, fragments, buffers = optimizer.wire, optimizer.fragments, optimizer.buffers
    assert wire is not None
    for name in ranks[0]["buffers"]:
        fill(fragments, buffers[name], mean_of([rank["buffers"][name] for rank in ranks]))
    for index in range(len(fragments)):
        if "estimate" in buffers:
            buffers["estimate"][index].copy_(buffers["mean_estimate"][index])
        elif ranks[0]["server"]:
            whole = wire.shards_of(index, [rank["server"][index] for rank in ranks])
            if wire.server_errors:
                wire.set_server_error(index, whole)
            else:
                buffers["error"][index].add_(whole)
    if optimizer.variant == "ef" and optimizer.reshard != "mean":
        for fragment, error in zip(fragments, buffers["error"], strict=True):
            if optimizer.reshard == "apply":
                fragment.add_(error, -1.0)
            error.zero_()


def _saved(optimizer: EfSgd, names: tuple[str, ...]) -> Buffers:
    there = [name for name in names if name in optimizer.buffers]
    return {name: per_parameter(optimizer.fragments, optimizer.buffers[name]) for name in there}


def _fill(optimizer: EfSgd, saved: Buffers) -> None:
    for name, tensors in saved.items():
        fill(optimizer.fragments, optimizer.buffers[name], tensors)
