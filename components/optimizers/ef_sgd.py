"""Stochastic gradient descent with compressed, error-fed gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from raycipe.components.optimizers._ef_state import common_state, load_common, load_own, own_state
from raycipe.components.optimizers._feedback import check_feedback, direction, squared
from raycipe.components.optimizers._fragments import cut
from raycipe.components.optimizers._fused import as_list
from raycipe.components.optimizers._iterates import Average, Iterates
from raycipe.components.optimizers._linked import link_stats, on_link
from raycipe.components.optimizers._match import Match, Matching, match_stats, matched
from raycipe.components.optimizers._whole import WholeSums
from raycipe.components.optimizers._wire import Collective, Sent, Wire
from raycipe.framework.arguments import NonNegative, Positive, Range
from raycipe.framework.comm import Comm, LocalComm
from raycipe.framework.contracts import Compressor, Link, Optimizer, OptimizerRun, Schedule
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register

Variant = Literal["ef", "ef21", "ef21_sgdm", "none"]


@register
class EfSgd(Optimizer):
    """SGD whose workers send compressed gradients and keep what compression left out for the next step.

    Worker m, with its gradient g_m (plus weight_decay · w, then momentum), error buffer e_m and compressor C:

    ef: p_m = ef_decay · e_m + lr · g_m; send C(p_m); e_m <- p_m - C(p_m); w <- w - mean_m C(p_m).
    ef21: c_m = C(g_m - h_m); h_m <- h_m + c_m; h <- h + mean_m c_m; w <- w - lr · h. All h start at 0.
    ef21_sgdm: as ef21, of v_m <- (1 - eta) v_m + eta · g_m in the place of g_m.
    none: w <- w - mean_m C(lr · g_m): what is left out is lost (to compare with).

    In ef the error lies in the units of the weights, so that a changed rate does not rescale old errors, and the
    virtual iterate w - mean_m e_m moves by exactly -lr · mean_m g_m. One worker alone is single-node EF-SGD.

    Args:
        compressor: what is sent of each fragment
        lr: learning rate; the schedule scales it
        momentum: share of the last step that is kept
        nesterov: look ahead along the momentum
        momentum_at: on each worker before compression, or (server) after averaging, equal on all of them
        weight_decay: strength of the pull towards 0 that is added to the gradient
        variant: which error feedback
        ef_decay: share of the error that is kept from step to step; below 1 old errors fade
        eta_momentum: share of the new gradient in the mean of ef21_sgdm
        init: start of ef21: with a compressed gradient, or with the full one, sent uncompressed once
        fragment_mb: parameters are exchanged in fragments of at most so many megabytes
        collective: how payloads travel; auto sums what can be summed, gathers while that is cheaper, else two_phase
        error_dtype: format of the buffers; auto is fp32, and fp64 for models in double precision
        clip_norm: largest norm of a worker's gradient
        on_nonfinite: a worker whose gradient is not finite: the others go on without it (skip), or the run ends
        average: which iterate is evaluated and exported: the last, the mean of all, or of the run's second half
        match: replace the compressor's strength by one of this contraction factor, to compare compressors by
        reshard: another number of workers takes up the mean error, adds it to the weights (apply), or drops it (zero)
        verify: send and check a checksum of each payload
        link: the network between the workers, where it is not the machine's own
        schedule: how the rate changes over the run; null keeps it

    Reference:
        S. P. Karimireddy et al., Error Feedback Fixes SignSGD and Other Gradient Compression Schemes, ICML 2019;
        P. Richtárik, I. Sokolov, I. Fatkhullin, EF21, NeurIPS 2021; I. Fatkhullin, A. Tyurin, P. Richtárik,
        Momentum Provably Improves Error Feedback!, NeurIPS 2023.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: ef_sgd, lr: 0.1, compressor: {type: topk, ratio: 0.05}}
    """

    exchanges = True

    def __init__(
        self,
        params: Any,
        compressor: Compressor,
        lr: NonNegative = 0.1,
        momentum: Annotated[float, Range(ge=0, lt=1)] = 0.0,
        nesterov: bool = False,
        momentum_at: Literal["local", "server"] = "local",
        weight_decay: NonNegative = 0.0,
        variant: Variant = "ef",
        ef_decay: Annotated[float, Range(ge=0, le=1)] = 1.0,
        eta_momentum: Annotated[float, Range(gt=0, le=1)] = 0.1,
        init: Literal["compressed", "full"] = "compressed",
        fragment_mb: Positive = 25.0,
        collective: Collective = "auto",
        error_dtype: Literal["auto", "fp32", "fp64"] = "auto",
        clip_norm: Positive | None = None,
        on_nonfinite: Literal["skip", "raise"] = "skip",
        average: Average = "none",
        match: Match | None = None,
        reshard: Literal["mean", "apply", "zero"] = "mean",
        verify: bool = False,
        link: Link | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        if nesterov and momentum == 0:
            raise ValueError("nesterov: needs momentum > 0")
        if variant in ("ef21", "ef21_sgdm") and momentum_at == "server":
            raise ValueError(f"momentum_at: {variant} keeps its momentum on the workers; write `local`")
        super().__init__(as_list(params), {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.nesterov, self.momentum_at, self.variant, self.ef_decay = nesterov, momentum_at, variant, ef_decay
        self.eta_momentum, self.init, self.collective, self.clip_norm = eta_momentum, init, collective, clip_norm
        self.on_nonfinite, self.reshard, self.verify, self.schedule = on_nonfinite, reshard, verify, schedule
        self.link = link
        self.fragments = cut(self.param_groups, fragment_mb, error_dtype)
        self.compressor = matched(compressor, match, self.fragments)
        is_measured = match is not None and match.get("mode") == "measured"
        self.matching = Matching(compressor, match, self.fragments) if match and is_measured else None
        check_feedback(self.compressor, self.fragments, variant != "none")
        self.iterates = Iterates(average)
        self.count, self.closed, self.is_owing = 0, False, False
        self.wire: Wire | None = None
        self.whole: WholeSums | None = None
        self.messages: dict[int, Tensor] = {}
        self.energy: list[Tensor] = [torch.zeros(())] * len(self.fragments)  # |p| of each at the last step

    # ------------------------------------------------------------------------------------------ start

    def prepare(self, run: OptimizerRun) -> None:
        self.iterates.total = run.total_steps
        self._begin(run.comm, run.seed)

    def _begin(self, comm: Comm, seed: int) -> None:
        comm = on_link(comm, self.link, seed)
        self.wire = Wire(
            self.compressor, self.fragments, comm, seed, self.collective, verify=self.verify, matching=self.matching
        )
        names = ["error", "total"]
        if any(group["momentum"] for group in self.param_groups):
            names.append("momentum" if self.momentum_at == "local" else "server_momentum")
        if self.variant in ("ef21", "ef21_sgdm"):
            names += ["estimate", "mean_estimate"]
        if self.variant == "ef21_sgdm":
            names.append("gradient_mean")
        self.buffers = {name: [fragment.zeros() for fragment in self.fragments] for name in names}
        self.whole = WholeSums(self.fragments, comm) if self._sends_everything() else None

    def _sends_everything(self) -> bool:
        """Whether plain sums of the gradients travel: then error buffers have nothing to do."""
        assert self.wire is not None
        exact = all(self.compressor.is_exact(fragment.dtype) for fragment in self.fragments)
        return (
            exact
            and self.matching is None
            and "estimate" not in self.buffers
            and (self.wire.way == "all_reduce" or self.wire.is_alone)
        )

    # ------------------------------------------------------------------------------------------ the step

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One exchange of every fragment, and one step; every rank calls it equally often."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self.wire is None:
            self._begin(LocalComm(), 0)
        gradients = self._gradients()
        is_finite = self._is_finite(gradients)
        if self.count == 0 and self.init == "full" and "estimate" in self.buffers:
            self._share_full_gradients(gradients, is_finite)
        if self.whole is not None:
            self._step_whole(self.whole, gradients, is_finite)
        else:
            sent = [self._send(index, gradient, is_finite) for index, gradient in enumerate(gradients)]
            for index, one in enumerate(sent):
                self._receive(index, one, is_finite)
        self.count += 1
        self.iterates.update(self.count, self.parameters)
        return loss

    @property
    def parameters(self) -> list[Tensor]:
        return [parameter for fragment in self.fragments for parameter in fragment.parameters]

    def _gradients(self) -> list[Tensor]:
        if self.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.clip_norm, foreach=True)
        return [fragment.gradient() for fragment in self.fragments]

    def _is_finite(self, gradients: list[Tensor]) -> bool:
        """A worker whose gradient is not finite sends nothing, and its buffers stay as they are."""
        is_finite = math.isfinite(sum(float(gradient.sum()) for gradient in gradients))
        if not is_finite and self.on_nonfinite == "raise":
            raise RunError(
                "nonfinite", f"a worker's gradient is not finite at step {self.count + 1}", where="optimizer"
            )
        return is_finite

    def _buffer(self, name: str, index: int) -> Tensor | None:
        return self.buffers[name][index] if name in self.buffers else None

    def _step_whole(self, whole: WholeSums, gradients: list[Tensor], is_finite: bool) -> None:
        """The step of a compressor that leaves nothing out: each of its passes over memory counts."""
        pending = []
        for index, gradient in enumerate(gradients):
            group, message, error = self.fragments[index].group, whole.message(index), self.buffers["error"][index]
            if is_finite:
                torch.mul(self._direction(index, gradient), group["lr"], out=message)
                if self.is_owing:  # taken over from a run that compressed
                    message.add_(error, alpha=self.ef_decay)
                    error.zero_()
            pending.append(whole.start(index, is_finite))
        self.is_owing = self.is_owing and not is_finite
        for index, one in enumerate(pending):
            total = one.wait()
            live = max(1.0, float(total[-1]))
            group, momentum = self.fragments[index].group, self._buffer("server_momentum", index)
            if momentum is None:
                self.fragments[index].add_(total[:-1], -1 / live)
            else:
                step = direction(total[:-1].div_(live), momentum, group["momentum"], self.nesterov)
                self.fragments[index].add_(step, -1.0)

    def _direction(self, index: int, gradient: Tensor) -> Tensor:
        """The gradient with weight decay and this worker's momentum."""
        fragment = self.fragments[index]
        group = fragment.group
        if group["weight_decay"]:
            gradient = fragment.weights().mul_(group["weight_decay"]).add_(gradient)
        return direction(gradient, self._buffer("momentum", index), group["momentum"], self.nesterov)

    def _send(self, index: int, gradient: Tensor, is_finite: bool) -> Sent:
        """Make p of a fragment's gradient, in place of its error, and begin to exchange it."""
        fragment, error = self.fragments[index], self.buffers["error"][index]
        if is_finite:
            self._make_message(index, error, self._direction(index, gradient), fragment.group["lr"])
            self.energy[index] = torch.linalg.vector_norm(error)
        assert self.wire is not None
        if self.wire.way == "all_reduce" and "estimate" in self.buffers:
            self.messages[index] = error.clone()  # h_m needs C(p), and no payload will tell it
        return self.wire.start(index, error, self.count, is_finite=is_finite)

    def _make_message(self, index: int, error: Tensor, step: Tensor, lr: float) -> None:
        """`error` becomes p: what is compressed, and then what compression leaves out."""
        if self.variant == "ef":
            if self.ef_decay != 1:
                error.mul_(self.ef_decay)
            error.add_(step, alpha=lr)
        elif self.variant == "none":
            torch.mul(step, lr, out=error)
        elif self.variant == "ef21":
            torch.sub(step, self.buffers["estimate"][index], out=error)
        else:
            mean = self.buffers["gradient_mean"][index]
            mean.lerp_(step, self.eta_momentum if self.count else 1.0)
            torch.sub(mean, self.buffers["estimate"][index], out=error)

    def _receive(self, index: int, sent: Sent, is_finite: bool) -> None:
        """Take the mean of what all workers sent of a fragment, and move the weights."""
        fragment, total = self.fragments[index], self.buffers["total"][index].zero_()
        group = fragment.group
        estimate = self._buffer("estimate", index)
        share = sent.wait(total)
        if estimate is None:
            step = direction(total, self._buffer("server_momentum", index), group["momentum"], self.nesterov)
            fragment.add_(step, -1.0)
            return
        if is_finite:
            self._follow(index, estimate, sent)
        mean = self.buffers["mean_estimate"][index]
        mean.add_(total, alpha=share)  # so that it stays the mean of all estimates, those of silent workers too
        fragment.add_(mean, -group["lr"])

    def _follow(self, index: int, estimate: Tensor, sent: Sent) -> None:
        """h_m += C(p_m), of the payload itself where there is one."""
        assert self.wire is not None
        message = self.messages.pop(index, None)
        if message is not None:
            estimate.add_(message).sub_(self.buffers["error"][index])
        else:
            self.wire.add_own_(sent, index, estimate)

    def _share_full_gradients(self, gradients: list[Tensor], is_finite: bool) -> None:
        """ef21 may begin with h_m = g_m, sent uncompressed."""
        assert self.wire is not None
        for index, gradient in enumerate(gradients):
            if is_finite:
                self.buffers["estimate"][index].copy_(gradient)
            mean = self.buffers["mean_estimate"][index].copy_(self.buffers["estimate"][index])
            self.wire.comm.all_reduce(mean, "mean")

    # ------------------------------------------------------------------------------------------ what others see

    @contextmanager
    def consensus(self) -> Iterator[None]:
        if self.closed or not self.iterates.is_ready:
            yield
            return
        private = [parameter.detach().clone() for parameter in self.parameters]
        self.set_weights(self.iterates.means)
        try:
            yield
        finally:
            self.set_weights(private)

    @torch.no_grad()
    def set_weights(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)

    def finish(self) -> None:
        if self.iterates.is_ready:
            self.set_weights(self.iterates.means)
        self.closed = True

    def stats(self) -> dict[str, Tensor | float]:
        """The norm of what was left out at the last step, and the contraction factor seen there."""
        if self.wire is None or not self.count:
            return {}
        left = float(squared(self.buffers["error"]))
        whole = float(squared(self.energy))
        alpha = 1 - left / whole if whole else 1.0
        return {
            "comm/error_norm": math.sqrt(left),
            "comm/alpha": alpha,
            **match_stats(self.matching),
            **link_stats(self.wire.comm),
        }

    # ------------------------------------------------------------------------------------------ checkpoints

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "ef_sgd": common_state(self)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({name: value for name, value in saved.items() if name != "params"})  # fragments hold the group
        if self.wire is None:
            self._begin(LocalComm(), 0)
        load_common(self, state_dict["ef_sgd"])

    def rank_state_dict(self) -> dict[str, Any]:
        return own_state(self) if self.wire else {}

    @torch.no_grad()
    def load_rank_state(self, mine: dict[str, Any] | None, all_ranks: list[dict[str, Any]]) -> None:
        if all_ranks and all_ranks[0]:
            load_own(self, mine, all_ranks)
