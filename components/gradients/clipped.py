"""Clipped gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from raycipe.components.gradients._clip import clip, clip_together
from raycipe.components.gradients.exact import Exact
from raycipe.framework.arguments import Positive, default
from raycipe.framework.contracts import Estimate, GradientEstimator, Problem
from raycipe.framework.registry import register

PROBED = 256  # examples from which the gradients' second moment is estimated


@register
class Clipped(GradientEstimator):
    """Gradients shortened to length tau: biased, and robust against heavy tails.

    g min(1, tau / |g|). The bias is at most E max(|g| - tau, 0) <= sigma² / (4 tau) where E|g|² <= sigma², so that
    tau = tau_c sigma sqrt(n) costs sigma / (4 tau_c sqrt(n)), the order of the statistical error. Logs the shares of
    clipped gradients, `train/clip_w` and `train/clip_v`.

    Args:
        tau: length at which gradients are cut; auto takes tau_c sigma sqrt(n), n the number of training examples
        scope: joint: both players as one vector; player: each by itself; sample: each example's gradient of each
            player, before the mean (exact gradients only)
        base: where the gradient comes from
        tau_c: factor of the automatic tau
        sigma: root of the gradients' second moment, both players together; probe takes that of the first 256 examples
            at the start

    Reference:
        E. Gorbunov et al., Clipped Stochastic Methods for Variational Inequalities with Heavy-Tailed Noise, NeurIPS
        2022.

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, zero_init: true}
        task: auc_saddle
        optimizer: {type: sgda, lr: 0.02, gradients: {type: clipped, tau: 1.0}}
    """

    def __init__(
        self,
        tau: Positive | Literal["auto"] = "auto",
        scope: Literal["joint", "player", "sample"] = "player",
        base: GradientEstimator = default("exact"),
        tau_c: Positive = 1.0,
        sigma: Positive | Literal["probe"] = "probe",
    ) -> None:
        if scope == "sample" and not isinstance(base, Exact):
            raise ValueError("scope: sample clips each example's exact gradient, and leaves no room for another base")
        self.tau = tau
        self.scope = scope
        self.base = base
        self.tau_c = tau_c
        self.sigma = sigma
        self.uses_gradients = base.uses_gradients and scope != "sample"
        self.whole_batch = base.whole_batch
        self.limit: Any = None if tau == "auto" else tau  # known before the first step

    def nested(self) -> Iterable[GradientEstimator]:
        return (self.base,)

    def prepare(self, problem: Problem) -> None:
        if self.tau != "auto":
            return
        sigma: Any = self.sigma
        if sigma == "probe":  # of both players together: one of them may have no gradient at the start
            both = torch.cat(problem.probe(PROBED), dim=-1)  # (..., examples, d_w + d_v)
            sigma = both.square().sum(-1).mean(-1, keepdim=True).sqrt()
        self.limit = self.tau_c * sigma * problem.num_examples**0.5

    def estimate(self, problem: Problem, w: Tensor, v: Tensor, players: str = "wv") -> Estimate:
        if self.scope == "sample":
            return self._by_sample(problem, w, v)
        found = self.base.estimate(problem, w, v, players)
        if self.scope == "joint":
            g_w, g_v, cut = clip_together(found.w, found.v, self.limit)
            cut_w = cut_v = cut
        else:
            g_w, cut_w = clip(found.w, self.limit)
            g_v, cut_v = clip(found.v, self.limit)
        return Estimate(g_w, g_v, {**found.info, "clip_w": cut_w.double().mean(), "clip_v": cut_v.double().mean()})

    def _by_sample(self, problem: Problem, w: Tensor, v: Tensor) -> Estimate:
        per_w, per_v = problem.sample_gradients(w, v)  # (..., batch, d)
        g_w, cut_w = clip(per_w, _a_sample(self.limit))
        g_v, cut_v = clip(per_v, _a_sample(self.limit))
        counts = torch.stack([cut_w.double().sum(), cut_v.double().sum()]).to(g_w.dtype)
        size = problem.size
        g_w, g_v, counts = problem.add_up(g_w.sum(-2) / size, g_v.sum(-2) / size, counts)
        share = counts * (g_w.shape[-1] / max(1, g_w.numel())) / size  # over runs, too
        return Estimate(g_w, g_v, {"clip_w": share[0], "clip_v": share[1]})

    def state(self) -> dict[str, Any]:
        return {"limit": self.limit}

    def load(self, state: Mapping[str, Any]) -> None:
        self.limit = state["limit"]


def _a_sample(limit: Any) -> Any:
    """A run's limit for each of its examples."""
    return limit.unsqueeze(-2) if isinstance(limit, Tensor) and limit.dim() > 1 else limit
