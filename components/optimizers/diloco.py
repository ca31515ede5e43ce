"""Many local steps, then one compressed, error-fed exchange of what the workers have moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from raycipe.components.optimizers._feedback import check_feedback, squared
from raycipe.components.optimizers._fragments import Fragment
from raycipe.components.optimizers._fused import as_list
from raycipe.components.optimizers._iterates import Average, Iterates
from raycipe.components.optimizers._linked import link_stats, on_link
from raycipe.components.optimizers._match import Match, Matching, match_stats, matched
from raycipe.components.optimizers._round_state import common_state, load_common, load_own, own_state
from raycipe.components.optimizers._rounds import Flight, Outer, Theory, divided, outer_step_, theory_rates
from raycipe.components.optimizers._wire import Collective, Wire
from raycipe.framework.arguments import Count, Range, default
from raycipe.framework.comm import LocalComm
from raycipe.framework.contracts import Compressor, Link, Optimizer, OptimizerRun
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class Diloco(Optimizer):
    """DiLoCo with error feedback: workers take H steps of their own, then exchange what they moved, compressed.

    With anchor a (the common weights), worker m's weights w_m, error e_m and compressor C, every H inner steps:

    p_m = ef_decay · e_m + (a - w_m); send C(p_m); e_m <- p_m - C(p_m); u = mean_m C(p_m);
    b <- momentum · b + u; a <- a - lr · (u + momentum · b) (without nesterov lr · b); w_m <- a.

    Fragment f of F syncs when step mod H = floor(f H / F), so that the exchange is spread over the round. With
    overlap_steps the workers go on while it travels, and its result is applied so many steps later. Evaluation, saved
    weights and measures see the anchors alone.

    Args:
        inner: optimizer of the local steps; the schedule is its own
        outer: step of the anchors; null is lr 0.7, momentum 0.9, nesterov
        H: inner steps of a round; the exchange costs 1/H of one at every step, workers drift apart the more
        compressor: what is sent of each fragment
        ef: keep what compression leaves out for the next round; false loses it (to compare with)
        ef_decay: share of the error that is kept from round to round
        fragments: F, parts of the parameters that sync at different steps
        fragment_pattern: every F-th parameter (strided), or runs of about equal size (sequential)
        overlap_steps: inner steps between the start of an exchange and its use; less than H/F
        mix: share of the anchor that a worker takes at a sync: 1 drops local steps since the exchange began, 0.5 takes
            the mean of both, add_local moves them onto the anchor
        server_compressor: compresses the mean, too, on its way back
        server_ef: keep what that leaves out
        weighting: workers count equally, or by the examples of their round
        theory: set both rates by theory; null takes them as given
        keep_inner_state: keep the inner optimizer's moments over a sync
        on_nonfinite: a worker whose weights are not finite: the others go on without it (skip), or the run ends
        average: which anchors are evaluated and exported: the last, the mean of all rounds, or of the second half
        collective: how payloads travel; auto takes the cheapest
        match: replace the compressor's strength by one of this contraction factor
        reshard: another number of workers takes up the mean error, adds it to the anchor (apply), or drops it (zero)
        verify: send and check a checksum of each payload
        link: the network between the workers, where it is not the machine's own

    Reference:
        A. Douillard et al., DiLoCo: Distributed Low-Communication Training of Language Models, 2023; A. Douillard et
        al., Streaming DiLoCo, 2025; A. Sarfi et al., Communication Efficient LLM Pre-training with SparseLoCo, 2025.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer:
          type: diloco
          H: 10
          inner: {type: adamw, lr: 1e-3}
          compressor: {type: topk, ratio: 0.1}
    """

    exchanges = True
    local_weights = True

    def __init__(
        self,
        params: Any,
        inner: Optimizer = default({"type": "adamw", "lr": 4e-4}),
        outer: Outer | None = None,
        H: Count = 50,
        compressor: Compressor = default("identity"),
        ef: bool = True,
        ef_decay: Annotated[float, Range(ge=0, le=1)] = 1.0,
        fragments: Count = 1,
        fragment_pattern: Literal["strided", "sequential"] = "strided",
        overlap_steps: Annotated[int, Range(ge=0)] = 0,
        mix: Annotated[float, Range(ge=0, le=1)] | Literal["add_local"] = 1.0,
        server_compressor: Compressor | None = None,
        server_ef: bool = True,
        weighting: Literal["uniform", "samples"] = "uniform",
        theory: Theory | None = None,
        keep_inner_state: bool = True,
        on_nonfinite: Literal["skip", "raise"] = "skip",
        average: Average = "none",
        collective: Collective = "auto",
        match: Match | None = None,
        reshard: Literal["mean", "apply", "zero"] = "mean",
        verify: bool = False,
        link: Link | None = None,
    ) -> None:
        super().__init__(as_list(params), {})
        self.inner, self.param_groups, self.schedule = inner, inner.param_groups, inner.schedule
        self.outer: Outer = {"lr": 0.7, "momentum": 0.9, "nesterov": True, **(outer or {})}
        self.H, self.ef, self.ef_decay, self.overlap_steps, self.mix = H, ef, ef_decay, overlap_steps, mix
        self.server_compressor, self.server_ef = server_compressor, server_ef
        self.weighting, self.theory = weighting, theory
        self.keep_inner_state, self.on_nonfinite, self.collective = keep_inner_state, on_nonfinite, collective
        self.reshard, self.verify, self.link = reshard, verify, link
        self._check(fragments)
        self.fragments = divided(self.param_groups, fragments, fragment_pattern)
        self.compressor = matched(compressor, match, self.fragments)
        is_measured = match is not None and match.get("mode") == "measured"
        self.matching = Matching(compressor, match, self.fragments) if match and is_measured else None
        check_feedback(self.compressor, self.fragments, ef)
        self.iterates = Iterates(average)
        self.count, self.synced_at, self.closed = 0, 0, False
        self.wire: Wire | None = None
        self._examples: Callable[[], int] = lambda: 1

    def _check(self, fragments: int) -> None:
        count = sum(len(group["params"]) for group in self.param_groups)
        if self.inner.exchanges:
            raise ValueError(f"inner: optimizers/{self.inner.type_name} exchanges by itself; take a local one")
        if fragments > count:
            raise ValueError(f"fragments: the model has {count} parameters, which can't be cut into {fragments}")
        if self.overlap_steps and self.overlap_steps >= self.H / fragments:
            raise ValueError(f"overlap_steps: must be below H / fragments = {self.H / fragments:g}")
        if self.theory is not None and self.schedule is not None:
            raise ValueError("theory: sets the inner rate; leave out the inner schedule")

    # ------------------------------------------------------------------------------------------ start

    def prepare(self, run: OptimizerRun) -> None:
        self.inner.prepare(run)
        rounds = max(1, run.total_steps // self.H)
        self.iterates.total = rounds
        self._examples = run.examples
        if self.theory is not None:
            self._set_rates(run.comm.world_size, self.theory.get("rounds") or rounds)
        self._begin(run.comm, run.seed)

    def _begin(self, comm: Any, seed: int) -> None:
        self.wire = Wire(
            self.compressor,
            self.fragments,
            on_link(comm, self.link, seed),
            seed,
            self.collective,
            self.server_compressor,
            self.server_ef,
            self.weighting == "samples",
            self.verify,
            self.matching,
        )
        self.anchors = [fragment.weights() for fragment in self.fragments]
        self.errors, self.staged, self.momenta = ([one.zeros() for one in self.fragments] for _ in range(3))
        self.flights: list[Flight | None] = [None] * len(self.fragments)
        self.rounds, self.synced, self.samples = ([0] * len(self.fragments) for _ in range(3))

    def _set_rates(self, workers: int, rounds: int) -> None:
        assert self.theory is not None
        inner, outer = theory_rates(self.theory.get("c", 4.0), workers, self.H, rounds)
        curvature, size = self.theory.get("L"), self.theory.get("R2")
        if curvature is not None and size is not None:
            batch = inner * outer * self.H * (curvature + size / (workers * self.H))
            local = inner * (curvature + size)
            if batch >= 2 or local >= 2:
                words = f"a round diverges: {batch:.3g} for it and {local:.3g} for an inner step, which must be below 2"
                raise RunError("recipe", words, "take a smaller c, or more rounds", "optimizer.theory")
        for group in self.param_groups:
            group["lr"] = inner
        self.outer = {"lr": outer, "momentum": 0.0, "nesterov": False}

    # ------------------------------------------------------------------------------------------ the step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One inner step; then what has arrived is applied, and what is due is sent."""
        if self.wire is None:
            self._begin(LocalComm(), 0)
        loss = self.inner.step(closure)
        self.count += 1
        self._count_examples()
        self._arrivals()
        for index in range(len(self.fragments)):
            if self.count % self.H == index * self.H // len(self.fragments):
                self._send(index)
        self._arrivals()
        return loss

    def _count_examples(self) -> None:
        """By the examples of its round a worker may be weighed; equal weights need examples in every step."""
        examples = self._examples()
        if not examples and self.weighting == "uniform":
            words = f"a worker had no examples at step {self.count}, but counts as much as the others"
            raise RunError(
                "recipe", words, "write `weighting: samples`, or drop the short batch", "optimizer.weighting"
            )
        self.samples = [count + examples for count in self.samples]

    def _arrivals(self) -> None:
        for index, flight in enumerate(self.flights):
            if flight is not None and flight.due <= self.count:
                self._arrive(index, flight)

    @torch.no_grad()
    def _send(self, index: int) -> None:
        fragment, staged = self.fragments[index], self.staged[index]
        local = fragment.weights()
        torch.sub(self.anchors[index], local, out=staged)
        if self.ef:
            staged.add_(self.errors[index], alpha=self.ef_decay)
        is_finite = math.isfinite(float(staged.sum()))
        if not is_finite and self.on_nonfinite == "raise":
            raise RunError("nonfinite", f"a worker's weights are not finite at step {self.count}", where="optimizer")
        weight = float(self.samples[index]) if self.weighting == "samples" else 1.0
        assert self.wire is not None
        sent = self.wire.start(index, staged, self.rounds[index], weight, is_finite)
        kept = local if self.mix == "add_local" else None
        self.flights[index] = Flight(self.count + self.overlap_steps, is_finite, kept, sent)
        self.samples[index], self.synced[index] = 0, self.count

    @torch.no_grad()
    def _arrive(self, index: int, flight: Flight) -> None:
        """The outer step of a fragment; its error is committed with it."""
        fragment, anchor = self.fragments[index], self.anchors[index]
        total = flight.wait(anchor)
        if flight.live:
            outer_step_(anchor, self.momenta[index], total, **self.outer)
        self._mix(fragment, anchor, flight)
        if self.ef and flight.is_finite:
            self.errors[index], self.staged[index] = self.staged[index], self.errors[index]
        if not (self.keep_inner_state and flight.is_finite):
            for parameter in fragment.parameters:
                self.inner.state.pop(parameter, None)
        self.flights[index] = None
        self.rounds[index] += 1
        self.synced_at = self.count
        if index == len(self.fragments) - 1:
            self.iterates.update(self.rounds[index], self.anchors)

    def _mix(self, fragment: Fragment, anchor: Tensor, flight: Flight) -> None:
        if not flight.is_finite or self.mix == 1:
            fragment.set_(anchor)
        elif flight.local is not None:
            fragment.add_(anchor - flight.local, 1.0)
        else:
            fragment.set_(torch.lerp(fragment.weights(), anchor, float(self.mix)))

    # ------------------------------------------------------------------------------------------ what others see

    @contextmanager
    def consensus(self) -> Iterator[None]:
        if self.closed or self.wire is None:
            yield
            return
        private = [parameter.detach().clone() for fragment in self.fragments for parameter in fragment.parameters]
        self._show_common()
        try:
            yield
        finally:
            with torch.no_grad():
                parameters = [parameter for fragment in self.fragments for parameter in fragment.parameters]
                torch._foreach_copy_(parameters, private)

    @torch.no_grad()
    def _show_common(self) -> None:
        for fragment, anchor in zip(self.fragments, self.iterates.means or self.anchors, strict=True):
            fragment.set_(anchor)

    def finish(self) -> None:
        """What is in flight is applied, and a round that has begun is closed by a last exchange."""
        if self.wire is None:
            return
        for index, flight in enumerate(self.flights):
            if flight is not None:
                self._arrive(index, flight)
        late = [index for index, synced in enumerate(self.synced) if self.count > synced]
        for index in late:
            self._send(index)
        for index in late:
            flight = self.flights[index]
            assert flight is not None
            self._arrive(index, flight)
        self._show_common()
        self.closed = True

    def stats(self) -> dict[str, Tensor | float]:
        """The norm of what the last exchange left out, and what the link tells."""
        if self.wire is None:
            return {}
        left = {"comm/error_norm": math.sqrt(float(squared(self.errors)))} if self.ef else {}
        return {**left, **match_stats(self.matching), **link_stats(self.wire.comm)}

    # ------------------------------------------------------------------------------------------ checkpoints

    def state_dict(self) -> dict[str, Any]:
        """What is equal on all workers; the inner optimizer's state is each worker's own."""
        state = super().state_dict()
        return {**state, "diloco": common_state(self)} if self.wire else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if "diloco" not in state_dict:  # saved before the first step
            return
        if self.wire is None:
            self._begin(LocalComm(), 0)
        load_common(self, state_dict["diloco"])

    def rank_state_dict(self) -> dict[str, Any]:
        """This worker's part; exchanges in flight are waited for, and kept to be applied at their step."""
        return own_state(self) if self.wire else {}

    @torch.no_grad()
    def load_rank_state(self, mine: dict[str, Any] | None, all_ranks: list[dict[str, Any]]) -> None:
        if all_ranks and all_ranks[0]:
            load_own(self, mine, all_ranks)
