"""The state of diloco in a checkpoint: what is equal on all workers, what is each one's own, and what becomes of the
latter when another number of workers takes over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from raycipe.components.optimizers._feedback import mean_of
from raycipe.components.optimizers._fragments import fill, per_parameter
from raycipe.components.optimizers._rounds import Flight, outer_step_

if TYPE_CHECKING:
    from raycipe.components.optimizers.diloco import Diloco


def common_state(optimizer: Diloco) -> dict[str, Any]:
    return {
        "count": optimizer.count,
        "closed": optimizer.closed,
        "rounds": optimizer.rounds,
        "synced": optimizer.synced,
        "synced_at": optimizer.synced_at,
        "iterates": optimizer.iterates.state(),
        "anchors": per_parameter(optimizer.fragments, optimizer.anchors),
        "momenta": per_parameter(optimizer.fragments, optimizer.momenta),
        "match": optimizer.matching.state() if optimizer.matching else None,
    }


def load_common(optimizer: Diloco, common: dict[str, Any]) -> None:
    assert optimizer.wire is not None
    optimizer.count, optimizer.closed = common["count"], common["closed"]
    optimizer.synced_at = common["synced_at"]
    optimizer.rounds, optimizer.synced = list(common["rounds"]), list(common["synced"])
    optimizer.iterates.load(common["iterates"])
    if optimizer.matching and common.get("match"):
        optimizer.wire.use(optimizer.matching.load(common["match"]))
    fill(optimizer.fragments, optimizer.anchors, common["anchors"])
    fill(optimizer.fragments, optimizer.momenta, common["momenta"])


def own_state(optimizer: Diloco) -> dict[str, Any]:
    wire = optimizer.wire
    assert wire is not None
    flights = [_flight_state(optimizer, index) for index in range(len(optimizer.fragments))]
    return {
        "inner": optimizer.inner.state_dict(),
        "errors": per_parameter(optimizer.fragments, optimizer.errors),
        "samples": optimizer.samples,
        "flights": flights,
        "compressor": [dict(one) for one in wire.states],
        "server": list(wire.server_errors),
    }


def _flight_state(optimizer: Diloco, index: int) -> dict[str, Any] | None:
    flight = optimizer.flights[index]
    if flight is None:
        return None
    total = flight.wait(optimizer.anchors[index])
    state = {"due": flight.due, "is_finite": flight.is_finite, "live": flight.live, "total": total}
    return {**state, "staged": optimizer.staged[index], "local": flight.local}


def load_own(optimizer: Diloco, mine: dict[str, Any] | None, ranks: list[dict[str, Any]]) -> None:
    """`mine` where the number of workers is unchanged, else what all of them had."""
    wire = optimizer.wire
    assert wire is not None
    mine_or_like = mine or ranks[wire.comm.rank % len(ranks)]
    optimizer.inner.load_state_dict(mine_or_like["inner"])
    optimizer.param_groups = optimizer.inner.param_groups
    for state, kept in zip(wire.states, mine_or_like["compressor"], strict=True):
        state.update(kept)
    if mine is None:
        _take_over(optimizer, ranks)
        return
    optimizer.samples = list(mine["samples"])
    fill(optimizer.fragments, optimizer.errors, mine["errors"])
    for error, saved in zip(wire.server_errors, mine["server"], strict=True):
        error.copy_(saved)
    for index, saved in enumerate(mine["flights"]):
        if saved is not None:
            optimizer.staged[index].copy_(saved["staged"])
            flight = Flight(saved["due"], saved["is_finite"], saved["local"], None, saved["total"], saved["live"])
            optimizer.flights[index] = flight


def _take_over(optimizer: Diloco, ranks: list[dict[str, Any]]) -> None:
    """Another number of workers: what is in flight is applied; all start from the anchors and the mean error."""
    for index in range(len(optimizer.fragments)):
        flights = [rank["flights"][index] for rank in ranks]
        if flights[0] is not None and flights[0]["live"]:
            outer_step_(optimizer.anchors[index], optimizer.momenta[index], flights[0]["total"], **optimizer.outer)
            optimizer.rounds[index] += 1
    optimizer.errors = _mean_error(optimizer, ranks)
    for index, fragment in enumerate(optimizer.fragments):
        if ranks[0]["server"]:
            _take_over_server_error(optimizer, index, [rank["server"][index] for rank in ranks])
        if optimizer.reshard == "apply":
            optimizer.anchors[index].sub_(optimizer.errors[index], alpha=optimizer.outer["lr"])
        if optimizer.reshard != "mean":
            optimizer.errors[index].zero_()
        fragment.set_(optimizer.anchors[index])


def _mean_error(optimizer: Diloco, ranks: Sequence[dict[str, Any]]) -> list[Tensor]:
    errors = []
    for rank in ranks:
        flats = [fragment.zeros() for fragment in optimizer.fragments]
        fill(optimizer.fragments, flats, rank["errors"])
        for flat, flight in zip(flats, rank["flights"], strict=True):
            if flight is not None and flight["is_finite"] and optimizer.ef:
                flat.copy_(flight["staged"])
        errors.append(flats)
    return mean_of(errors)


def _take_over_server_error(optimizer: Diloco, index: int, shards: list[Tensor]) -> None:
    assert optimizer.wire is not None
    whole = optimizer.wire.shards_of(index, shards)
    if optimizer.wire.server_errors:
        optimizer.wire.set_server_error(index, whole)
    else:
        optimizer.errors[index].add_(whole)
