"""DataInf: the mean of inverses instead of the inverse of the mean."""

from __future__ import annotations

import torch
from torch import Tensor

from raycipe.components.ihvp._layerwise import gathered, require_layers, spread
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import InverseHVP, Solved, System
from raycipe.framework.curvature import example_gradients
from raycipe.framework.registry import register

SHARE = 0.1  # of the mean square gradient entry: the damping that the paper takes


@register
class Datainf(InverseHVP):
    """DataInf: a closed form for each parameter by itself, from the gradients of single examples.

    x = (1/n) sum_i (g_i g_i' + l I)⁻¹ b = (1/n) sum_i (b - (g_i'b) / (l + |g_i|²) g_i) / l,
    with g_i the gradient of example i in this parameter.

    Args:
        damping: l; null takes 0.1 times the mean square of the parameter's gradient entries

    Reference:
        Y. Kwon, E. Wu, K. Wu, J. Zou, DataInf: Efficiently Estimating Data Influence in LoRA-tuned LLMs and Diffusion
        Models, ICLR 2024.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: influence, forget: {type: one_class, label: 3}, ihvp: datainf}
    """

    def __init__(self, damping: Positive | None = None) -> None:
        self.damping = damping

    def solve(self, system: System, b: Tensor) -> Solved:
        layers = require_layers(system, "datainf")
        parts = spread(layers, b)
        sizes = [part.numel() for part in parts.values()]
        rows = torch.cat([each.double() for each in example_gradients(layers.model, layers.loss, layers.batches())])
        found = {
            name: closed_form(gradients, part.reshape(-1), self.damping).reshape(part.shape)
            for (name, part), gradients in zip(parts.items(), torch.split(rows, sizes, dim=1), strict=True)
        }
        return Solved(gathered(layers, found, b), 1, False, "closed form")


def closed_form(gradients: Tensor, b: Tensor, damping: float | None) -> Tensor:
    """x (d,) from the examples' gradients (n, d) and b (d,)."""
    squares = gradients.square().sum(dim=1)  # (n,)
    lam = damping if damping is not None else SHARE * float(squares.mean()) / len(b)
    if lam <= 0:
        return b  # no gradient anywhere: nothing is known of the curvature
    return (b - ((gradients @ b) / (lam + squares)) @ gradients / len(gradients)) / lam
