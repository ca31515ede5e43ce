"""Adam with decoupled weight decay."""

from __future__ import annotations

from typing import Any

import torch

from raycipe.components.optimizers._fused import as_list, choose_fused
from raycipe.framework.arguments import Fraction, NonNegative, Positive
from raycipe.framework.contracts import Optimizer, Schedule
from raycipe.framework.registry import register


@register
class Adamw(Optimizer, torch.optim.AdamW):
    """AdamW: Adam whose weight decay acts on the weights, not on the gradient (torch's own).

    w <- w - lr · weight_decay · w;  then Adam's step on the plain gradient:
    m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g²;  w <- w - lr · (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).

    Args:
        lr: learning rate, about the largest change of a weight per step; the schedule scales it
        betas: b1 and b2, how much of the running means is kept per step; nearer to 1 averages over more steps
        eps: added to the denominator; larger values damp steps where gradients are tiny
        weight_decay: share of each weight that is taken away per step, times lr
        amsgrad: divide by the largest v so far instead of the current one
        fused: one kernel for the whole update; null uses it where torch has it, and its last bits differ
        schedule: how the rate changes over the run; null keeps it

    Reference:
        I. Loshchilov, F. Hutter, Decoupled Weight Decay Regularization, ICLR 2019.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: adamw, lr: 1e-3, weight_decay: 0.05, schedule: cosine}
    """

    def __init__(
        self,
        params: Any,
        lr: NonNegative = 1e-3,
        betas: tuple[Fraction, Fraction] = (0.9, 0.999),
        eps: Positive = 1e-8,
        weight_decay: NonNegative = 0.01,
        amsgrad: bool = False,
        fused: bool | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        params = as_list(params)
        super().__init__(
            params,
            lr=lr,
            betas=(betas[0], betas[1]),
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            fused=choose_fused(params, fused),
        )
        self.schedule = schedule
