"""Adaptive moment estimation."""

from __future__ import annotations

from typing import Any

import torch

from raycipe.components.optimizers._fused import as_list, choose_fused
from raycipe.framework.arguments import Fraction, NonNegative, Positive
from raycipe.framework.contracts import Optimizer, Schedule
from raycipe.framework.registry import register


@register
class Adam(Optimizer, torch.optim.Adam):
    """Adam: steps scaled by running means of the gradient and of its square (torch's own).

    g <- grad + weight_decay · w;  m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g²;
    w <- w - lr · (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).

    Args:
        lr: learning rate, about the largest change of a weight per step; the schedule scales it
        betas: b1 and b2, how much of the running means is kept per step; nearer to 1 averages over more steps
        eps: added to the denominator; larger values damp steps where gradients are tiny
        weight_decay: strength of the pull towards 0 that is added to the gradient; adamw decouples it
        amsgrad: divide by the largest v so far instead of the current one
        fused: one kernel for the whole update; null uses it where torch has it, and its last bits differ
        schedule: how the rate changes over the run; null keeps it

    Reference:
        D. P. Kingma, J. Ba, Adam: A Method for Stochastic Optimization, ICLR 2015.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: adam, lr: 1e-3, betas: [0.9, 0.99]}
    """

    def __init__(
        self,
        params: Any,
        lr: NonNegative = 1e-3,
        betas: tuple[Fraction, Fraction] = (0.9, 0.999),
        eps: Positive = 1e-8,
        weight_decay: NonNegative = 0.0,
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
