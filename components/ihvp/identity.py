"""No curvature at all."""

from __future__ import annotations

from torch import Tensor

from raycipe.framework.contracts import InverseHVP, Solved, System
from raycipe.framework.registry import register


@register
class Identity(InverseHVP):
    """x = b, a gradient step: what influence functions come to without the inverse curvature.

    Reference:
        G. Pruthi, F. Liu, S. Kale, M. Sundararajan, Estimating Training Data Influence by Tracing Gradient Descent,
        NeurIPS 2020 (the score of one checkpoint).

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: gif, forget: {type: one_class, label: 3}, ihvp: identity}
    """

    def solve(self, system: System, b: Tensor) -> Solved:
        return Solved(system.pick(b), 0, False, "identity")
