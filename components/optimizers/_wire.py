"""The mean over workers of what they compress, as it really travels.

Three ways, chosen once: `all_gather` (every worker reads all payloads), `all_reduce` (sums that the network adds up, of
compressors that allow it) and `two_phase` (each worker averages one shard of all, compresses it again with an error
buffer of its own, and hands it round: about two payloads a worker, whatever their number). All ranks start the same
operations in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from raycipe.components.compressors._payload import Header, codec_of, opened, seal
from raycipe.components.optimizers._fragments import Fragment
from raycipe.components.optimizers._match import Matching
from raycipe.framework.comm import Comm, Pending
from raycipe.framework.contracts import HEADER_BYTES, Compressor, Draw, Plan, State
from raycipe.framework.errors import RunError

Collective = Literal["auto", "all_gather", "all_reduce", "two_phase"]
SHARDS = 1 << 20  # fragments are numbered below this; shards of them above
SERVER = 1 << 40


class Sent(NamedTuple):
    """An exchange in flight."""

    payloads: list[Tensor]  # this worker's own; none where sums travel
    finish: Callable[[Tensor], float]  # add the mean to a tensor; gives the share of workers that sent something

    def wait(self, out: Tensor) -> float:
        """out += mean of all C(p); gives the weight of the workers that took part (1 for all, 0 for none)."""
        return self.finish(out)


class Wire:
    """Exchanges fragment after fragment.

    Args:
        server: compresses the shards' means; with `server_feedback` what it leaves out is kept and sent later.
        weighted: the workers' weights differ and travel with the payloads.
        verify: send and check a checksum.
        matching: looks for the compressor's strength, exchange by exchange.
    """

    def __init__(
        self,
        compressor: Compressor,
        fragments: Sequence[Fragment],
        comm: Comm,
        seed: int,
        collective: Collective = "auto",
        server: Compressor | None = None,
        server_feedback: bool = True,
        weighted: bool = False,
        verify: bool = False,
        matching: Matching | None = None,
    ) -> None:
        self.matching = matching
        self.weight_bytes = 4 if weighted else 0
        self.compressor, self.fragments, self.comm, self.seed, self.verify = compressor, fragments, comm, seed, verify
        self.plans = [compressor.plan(fragment.numel, fragment.shapes) for fragment in fragments]
        self.codecs = [compressor] * len(fragments)  # of each fragment's last exchange
        self.states: list[State] = [{} for _ in fragments]
        self.way = choose(collective, compressor, self.plans, comm.world_size, server is not None)
        self.server, self.server_feedback = server or compressor, server_feedback
        self.server_errors: list[Tensor] = []
        if self.way == "two_phase":
            if matching is not None:
                raise _refused("a measured match can't be cut into shards", "use all_gather, or match.mode: worst")
            self._lay_out_shards()
        _check_equal(fragments, compressor, comm)

    @property
    def is_alone(self) -> bool:
        return self.comm.world_size == 1

    def start(self, index: int, tensor: Tensor, round_: int, weight: float = 1.0, is_finite: bool = True) -> Sent:
        """Begin the exchange of a fragment. `tensor` becomes its residual, at the latest when the exchange is waited
        for; it stays as it is if it `is_finite` not, and then counts nothing."""
        draw = Draw(self.seed, self.comm.rank, round_, index)
        if self.matching is not None and not self.matching.is_found and index == self.matching.index:
            self._match(self.matching, tensor, draw, is_finite)
        if self.codecs[index] is not self.compressor:
            fragment = self.fragments[index]
            self.codecs[index] = self.compressor
            self.plans[index] = self.compressor.plan(fragment.numel, fragment.shapes)
        if not self.compressor.sends(draw):
            return Sent([], lambda out: 1.0)
        if self.way == "all_reduce":
            return self._start_sum(index, tensor, draw, weight if is_finite else 0.0)
        if self.way == "two_phase":
            return self._start_two_phase(index, tensor, draw, weight if is_finite else 0.0)
        return self._start_gather(index, tensor, draw, weight if is_finite else 0.0)

    def _match(self, matching: Matching, tensor: Tensor, draw: Draw, is_finite: bool) -> None:
        """All workers take the mean of the strengths that each finds for its own message."""
        has_size = is_finite and bool(tensor.any())
        found = [matching.fit(tensor, draw), 1.0] if has_size else [0.0, 0.0]
        total, count = self.comm.all_reduce(torch.tensor(found, dtype=torch.float64, device=tensor.device)).tolist()
        if count:
            self.use(matching.add(total / count))

    def use(self, compressor: Compressor) -> None:
        """Go on with another strength of the same compressor; all ranks do so at the same exchange."""
        self.compressor = compressor

    def add_own_(self, sent: Sent, index: int, out: Tensor) -> None:
        """out += this worker's own C(p); not where sums travel."""
        plans = [self.plans[index]] if self.way == "all_gather" else [self.shard_plans[index]] * len(sent.payloads)
        at = 0
        for payload, plan in zip(sent.payloads, plans, strict=True):
            if self.way == "all_gather":
                self.codecs[index].add_decoded_(payload, plan, out)
                continue
            part = out[at : at + plan.numel]
            whole = part if part.numel() == plan.numel else part.new_zeros(plan.numel)
            self.compressor.add_decoded_(payload, plan, whole)
            if whole is not part:
                part += whole[: part.numel()]
            at += plan.numel

    # ------------------------------------------------------------------------------------------ payloads

    def _payload(
        self, compressor: Compressor, tensor: Tensor, plan: Plan, draw: Draw, state: State, weight: float
    ) -> Tensor:
        """A sealed payload, with the sender's weight behind it if these differ; an empty one if it is 0."""
        payload = torch.empty(plan.payload_bytes + self.weight_bytes, dtype=torch.uint8, device=tensor.device)
        if weight:
            compressor.encode_(tensor, plan, draw, state, payload[HEADER_BYTES : plan.payload_bytes])
        else:
            payload.zero_()
        if self.weight_bytes:
            payload[plan.payload_bytes :] = torch.tensor([weight], device=tensor.device).view(torch.uint8)
        seal(payload, self._header(compressor, plan, draw), not weight, self.verify)
        return payload

    def _header(self, compressor: Compressor, plan: Plan, draw: Draw) -> Header:
        return Header(codec_of(compressor), draw.fragment, draw.step, plan.numel)

    def _add_mean(
        self, compressor: Compressor, payloads: Sequence[Tensor], plan: Plan, draw: Draw, out: Tensor
    ) -> float:
        """out += weighted mean of what the ranks sent."""
        header, rank = self._header(compressor, plan, draw), self.comm.rank
        live = [payload for sender, payload in enumerate(payloads) if opened(payload, header, sender, rank)]
        weights = [1.0] * len(live)
        if self.weight_bytes:
            weights = [float(payload[plan.payload_bytes :].clone().view(torch.float32)) for payload in live]
        for payload, weight in zip(live, weights, strict=True):
            compressor.decode_(payload[HEADER_BYTES : plan.payload_bytes], plan, out, weight / sum(weights))
        return len(live) / len(payloads)

    # ------------------------------------------------------------------------------------------ the three ways

    def _start_gather(self, index: int, tensor: Tensor, draw: Draw, weight: float) -> Sent:
        plan, codec = self.plans[index], self.codecs[index]
        payload = self._payload(codec, tensor, plan, draw, self.states[index], weight)
        pending = self.comm.start_all_gather(payload) if self.comm.world_size > 1 else None

        def finish(out: Tensor) -> float:
            payloads = pending.wait() if pending else [payload]
            return self._add_mean(codec, payloads, plan, draw, out)

        return Sent([payload], finish)

    def _start_sum(self, index: int, tensor: Tensor, draw: Draw, weight: float) -> Sent:
        """The sum of the weights travels behind the summands: it is what the sums are divided by."""
        given, plan, state = tensor if weight else torch.zeros_like(tensor), self.plans[index], self.states[index]
        codec = self.codecs[index]

        def start(part: int) -> Pending[Tensor]:
            summand = codec.summand(given, plan, draw, state, part)
            if weight not in (0.0, 1.0):
                summand = summand * weight
            return self.comm.start_all_reduce(torch.cat([summand, summand.new_tensor([weight])]))

        pending = start(0)

        def finish(out: Tensor) -> float:
            live = 0.0
            for part in range(codec.passes):
                total = (pending if part == 0 else start(part)).wait()
                live = float(total[-1])
                mean = total[:-1].to(out.dtype).div_(live) if live else torch.zeros_like(total[:-1], dtype=out.dtype)
                codec.absorb_(mean, given, plan, draw, state, out, part)
            return live / self.comm.world_size

        return Sent([], finish)

    def _lay_out_shards(self) -> None:
        world = self.comm.world_size
        self.shard_plans = [self.compressor.plan(-(-fragment.numel // world)) for fragment in self.fragments]
        self.server_plans = [self.server.plan(plan.numel) for plan in self.shard_plans]
        for fragment, plan in zip(self.fragments, self.shard_plans, strict=True):
            self.server_errors.append(fragment.zeros().new_zeros(plan.numel))

    def _start_two_phase(self, index: int, tensor: Tensor, draw: Draw, weight: float) -> Sent:
        plan, rank = self.shard_plans[index], self.comm.rank
        draws = [replace(draw, fragment=(shard + 1) * SHARDS + index) for shard in range(self.comm.world_size)]
        payloads = [
            self._shard_payload(tensor[shard * plan.numel : (shard + 1) * plan.numel], plan, draws[shard], weight)
            for shard in range(self.comm.world_size)
        ]
        pending = self.comm.start_all_to_all(payloads)

        def finish(out: Tensor) -> float:
            mean = torch.zeros_like(self.server_errors[index])
            live = self._add_mean(self.compressor, pending.wait(), plan, draws[rank], mean)
            self._hand_round(index, mean, draw, out, live)
            return live

        return Sent(payloads, finish)

    def _shard_payload(self, part: Tensor, plan: Plan, draw: Draw, weight: float) -> Tensor:
        """The payload of a shard; the last one is filled up with zeros, whose residual is nobody's."""
        if part.numel() == plan.numel:
            return self._payload(self.compressor, part, plan, draw, {}, weight)
        whole = part.new_zeros(plan.numel)
        whole[: part.numel()] = part
        payload = self._payload(self.compressor, whole, plan, draw, {}, weight)
        part.copy_(whole[: part.numel()])
        return payload

    def _hand_round(self, index: int, mean: Tensor, draw: Draw, out: Tensor, live: float) -> None:
        """This rank's shard of the mean goes to all, compressed; what is left out of it is sent later."""
        plan, error = self.server_plans[index], self.server_errors[index]
        ranks = range(self.comm.world_size)
        draws = [replace(draw, rank=rank, fragment=SERVER + rank * SHARDS + index) for rank in ranks]
        mean += error
        sends = self.server.sends(draw)
        payload = self._payload(self.server, mean, plan, draws[self.comm.rank], {}, live if sends else 0.0)
        error.copy_(mean if self.server_feedback else torch.zeros_like(mean))
        for shard, other in enumerate(self.comm.all_gather(payload)):
            part = out[shard * plan.numel : (shard + 1) * plan.numel]
            whole = part.new_zeros(plan.numel)
            self._add_mean(self.server, [other], plan, draws[shard], whole)
            part += whole[: part.numel()]

    # ------------------------------------------------------------------------------------------ state

    def shards_of(self, index: int, all_errors: Sequence[Tensor]) -> Tensor:
        """All ranks' server errors of a fragment as one flat tensor."""
        return torch.cat(list(all_errors))[: self.fragments[index].numel]

    def set_server_error(self, index: int, whole: Tensor) -> None:
        """Take this rank's shard of a fragment's server error."""
        mine = self.server_errors[index].zero_()
        part = whole[self.comm.rank * mine.numel() : (self.comm.rank + 1) * mine.numel()]
        mine[: part.numel()] = part


def choose(collective: Collective, compressor: Compressor, plans: Sequence[Plan], world_size: int, server: bool) -> str:
    """The way of exchanging. Raises RunError for one that this compressor or number of workers can't go."""
    if server and collective not in ("auto", "two_phase"):
        raise _refused(f"a server compressor needs the collective two_phase, not {collective}")
    if (server or collective == "two_phase") and compressor.passes > 1:
        raise _refused(f"compressors/{compressor.type_name} can't be cut into shards", "use all_reduce or all_gather")
    if collective == "two_phase" and world_size == 1:
        raise _refused("two_phase needs at least two workers", "use auto")
    if collective == "all_reduce" and not compressor.reducible:
        raise _refused(
            f"what compressors/{compressor.type_name} sends can't be summed on the way", "use all_gather or auto"
        )
    if server:
        return "two_phase"
    if collective != "auto":
        return collective
    if compressor.reducible and world_size > 1:
        return "all_reduce"
    if world_size == 1 or compressor.passes > 1:
        return "all_gather"
    return _gather_or_two_phase(compressor, plans, world_size)


def _gather_or_two_phase(compressor: Compressor, plans: Sequence[Plan], world_size: int) -> str:
    """Gather while a rank sends less than in a dense all-reduce, or where two phases would save less than a tenth."""
    others = world_size - 1
    gathered = others * sum(plan.payload_bytes for plan in plans)
    dense = 2 * others / world_size * 4 * sum(plan.numel for plan in plans)
    shards = [compressor.plan(-(-plan.numel // world_size)) for plan in plans]
    in_two = 2 * others * sum(plan.payload_bytes for plan in shards)
    return "all_gather" if gathered < dense or 0.9 * gathered <= in_two else "two_phase"


def _refused(message: str, hint: str = "") -> RunError:
    return RunError("recipe", message, hint, "optimizer.collective")


def _check_equal(fragments: Sequence[Fragment], compressor: Compressor, comm: Comm) -> None:
    """Raise RunError if the ranks would not send the same: named is the first parameter that differs."""
    shapes = [shape for fragment in fragments for shape in fragment.shapes]
    cuts = [len(fragment.shapes) for fragment in fragments]
    everyone: list[Any] = comm.gather_objects((compressor.type_name, cuts, shapes))
    for rank, (type_name, their_cuts, their_shapes) in enumerate(everyone):
        if (type_name, their_cuts, their_shapes) == everyone[0]:
            continue
        pairs = enumerate(zip(their_shapes, everyone[0][2], strict=False))
        first = next((f"parameter {i} has shape {a} there, {b} on rank 0" for i, (a, b) in pairs if a != b), "")
        raise RunError("component", f"rank {rank} would exchange something else than rank 0", first, "optimizer")
