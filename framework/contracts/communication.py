"""What is sent between workers: compressors, and models of the network between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raycipe.framework.contracts.component import Component
from raycipe.framework.streams import key

HEADER_BYTES = 24  # before the body of every payload: which fragment of which round it is, and a checksum
State = dict[str, Tensor]  # what a compressor keeps between the steps of one fragment


@dataclass(frozen=True)
class Plan:
    """What is fixed once for a fragment of `numel` entries, whose parameters have the given shapes."""

    numel: int
    shapes: tuple[tuple[int, ...], ...]
    body_bytes: int
    layout: Any = None  # the compressor's own

    @property
    def payload_bytes(self) -> int:
        return HEADER_BYTES + self.body_bytes


@dataclass(frozen=True)
class Draw:
    """Names the random numbers of one exchange of one fragment. `shared` ones are equal on all workers."""

    seed: int
    rank: int = 0
    step: int = 0
    fragment: int = 0

    def key(self, use: str, shared: bool = False) -> int:
        """A 63-bit number for the use `use`, to seed a generator with."""
        if shared:
            return key(self.seed, f"compress/shared/{use}", self.step, self.fragment)
        return key(self.seed, f"compress/{use}", self.rank, self.step, self.fragment)


class Compressor(Component, ABC):
    """A flat tensor p → the payload that is really sent → C(p), on every worker alike.

    A payload is one contiguous uint8 tensor: a header of 24 bytes, which the sender fills, and a body whose size
    depends on the plan alone. Tensors are flat, float32 or float64, finite, and may lie on any device. `encode_`
    leaves in p the residual against what a receiver will decode, after rounding, clamping and packing.

    A compressor that keeps something between steps (a warm start) keeps it in the `state` that it is given, a dict
    that starts empty and is saved with the run. A `reducible` one can also be summed on the way: what `summand` gives
    is averaged over the workers and handed to `absorb_`, `passes` times, after which `out` has gained the mean of all
    C(p) and p is this worker's residual.
    """

    reducible: bool = False
    passes: int = 1

    @abstractmethod
    def plan(self, numel: int, shapes: Sequence[Sequence[int]] = ()) -> Plan:
        """Sizes for fragments of `numel` entries. Raises ValueError, beginning with an argument's name, if the
        arguments don't fit that many."""

    @abstractmethod
    def encode_(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, body: Tensor) -> None:
        """Fill `body` (uint8, `plan.body_bytes`), and turn `tensor` into its residual."""

    @abstractmethod
    def decode_(self, body: Tensor, plan: Plan, out: Tensor, weight: float = 1.0) -> None:
        """out += weight · C(p)."""

    @abstractmethod
    def alpha(self, plan: Plan) -> float | None:
        """The contraction factor in E|C(v) - v|² <= (1 - alpha) |v|² for every v; None where no closed form holds."""

    def omega(self, plan: Plan) -> float | None:
        """E|C(v) - v|² <= omega |v|² of an unbiased compressor; None for others."""
        return None

    def is_exact(self, dtype: torch.dtype) -> bool:
        """Whether C(p) = p, bit for bit, for every finite p of this format."""
        return False

    def expected_bytes(self, plan: Plan) -> float:
        """The mean size of a payload: less than the plan's where some rounds send nothing."""
        return float(plan.payload_bytes)

    def sends(self, draw: Draw) -> bool:
        """Whether anything is sent in this exchange: the same answer on all workers."""
        return True

    def match(self, alpha: float, numel: int) -> dict[str, Any]:
        """A recipe of this compressor, changed to have the closed-form contraction factor `alpha` on `numel` entries.

        Raises ValueError where there is none.
        """
        raise ValueError(f"match: compressors/{self.type_name} has no closed-form contraction factor to set")

    def summand(self, tensor: Tensor, plan: Plan, draw: Draw, state: State, part: int) -> Tensor:
        """What this worker adds to the sum of pass `part` (a floating tensor, free to be changed by the caller).

        Only asked where `reducible` says that it can be summed.
        """
        raise NotImplementedError(f"compressors/{self.type_name} can't be summed on the way")

    def absorb_(
        self, mean: Tensor, tensor: Tensor, plan: Plan, draw: Draw, state: State, out: Tensor, part: int
    ) -> None:
        """Take the mean of all summands of pass `part`; the last pass adds it to `out` and leaves the residual.

        Only asked where `reducible` says that it can be summed.
        """
        raise NotImplementedError(f"compressors/{self.type_name} can't be summed on the way")

    def compress_(self, tensor: Tensor, plan: Plan, draw: Draw, state: State | None = None) -> Tensor:
        """The payload of `tensor`, its header empty; `tensor` becomes its residual. Empty if nothing is sent."""
        if not self.sends(draw):
            return torch.empty(0, dtype=torch.uint8, device=tensor.device)
        payload = torch.empty(plan.payload_bytes, dtype=torch.uint8, device=tensor.device)
        payload[:HEADER_BYTES] = 0
        self.encode_(tensor, plan, draw, {} if state is None else state, payload[HEADER_BYTES:])
        return payload

    def add_decoded_(self, payload: Tensor, plan: Plan, out: Tensor, weight: float = 1.0) -> None:
        """out += weight · C(p)."""
        if payload.numel():
            self.decode_(payload[HEADER_BYTES:], plan, out, weight)

    def of_rows(self, rows: Tensor, plan: Plan, draw: Draw) -> Tensor:
        """C(p) of each row of (n, numel), all with the random numbers of one draw: runs side by side that share them.

        Without a state: only asked of compressors that keep none.
        """
        out = torch.zeros_like(rows)
        for row, decoded in zip(rows, out, strict=True):
            self.add_decoded_(self.compress_(row.clone(), plan, draw), plan, decoded)
        return out

    def alpha_of(self, vector: Tensor, draw: Draw | None = None, shapes: Sequence[Sequence[int]] = ()) -> float:
        """The contraction factor on one vector, 1 - |C(v) - v|² / |v|² (1 for a vector of zeros)."""
        residual = vector.detach().clone()
        self.compress_(residual, self.plan(vector.numel(), shapes), draw or Draw(0))
        whole = float(vector.detach().double().square().sum())
        return 1.0 - float(residual.double().square().sum()) / whole if whole else 1.0


class Link(Component, ABC):
    """A network between workers: how long an exchange takes on it.

    `sleeps` says whether a run waits for it in earnest, or counts the time only (`comm/link_seconds`).
    """

    sleeps: bool = False

    @abstractmethod
    def seconds(self, num_bytes: float, hops: int, chance: float = 0.0) -> float:
        """Time of an exchange for which each worker sends `num_bytes` in `hops` messages one after the other.

        `chance`, in [0, 1), is this exchange's share of what may come on top of the latency.
        """
