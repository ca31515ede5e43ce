"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Annotated, Any

import torch

from raycipe.components.optimizers._fused import as_list, choose_fused
from raycipe.framework.arguments import NonNegative, Range
from raycipe.framework.contracts import Optimizer, Schedule
from raycipe.framework.registry import register


@register
class Sgd(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent with momentum (torch's own).

    g <- grad + weight_decay · w;  b <- momentum · b + (1 - dampening) g;  w <- w - lr · b.
    With nesterov the last is w <- w - lr (g + momentum · b). The first step takes b = g.

    Args:
        lr: learning rate; the schedule scales it
        momentum: share of the last step that is kept; 0.9 is common, nearer to 1 averages over more steps
        dampening: share of the new gradient that is left out of the momentum
        weight_decay: strength of the pull towards 0 that is added to the gradient
        nesterov: look ahead along the momentum; needs momentum > 0 and dampening 0
        fused: one kernel for the whole update; null uses it where torch has it, and its last bits differ
        schedule: how the rate changes over the run; null keeps it

    Reference:
        I. Sutskever et al., On the Importance of Initialization and Momentum in Deep Learning, ICML 2013.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9, nesterov: true, schedule: cosine}
    """

    def __init__(
        self,
        params: Any,
        lr: NonNegative = 1e-2,
        momentum: Annotated[float, Range(ge=0, lt=1)] = 0.0,
        dampening: Annotated[float, Range(ge=0, le=1)] = 0.0,
        weight_decay: NonNegative = 0.0,
        nesterov: bool = False,
        fused: bool | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        if nesterov and (momentum == 0 or dampening != 0):
            raise ValueError(
                f"nesterov: needs momentum > 0 and dampening 0, not momentum {momentum} and dampening {dampening}"
            )
        params = as_list(params)
        super().__init__(
            params,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            fused=choose_fused(params, fused),
        )
        self.schedule = schedule
