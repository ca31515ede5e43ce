"""Noise in the weights that do not matter to what stays."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raycipe.components.editors._case import Case
from raycipe.components.editors._objective import layout_of
from raycipe.components.editors._training import Edit
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Editor, Forget, Measured, Trained
from raycipe.framework.curvature import mean_square_gradient
from raycipe.framework.registry import register


@register
class FisherForget(Editor):
    """Fisher forgetting: Gaussian noise, large where the examples that stay have little curvature.

    w <- w + n, n_i normal with variance min(alpha / (c_i + epsilon), largest²), c the mean squared gradient over what
    stays.

    Args:
        forget: the examples that are to be forgotten
        alpha: scale of the variance; larger values forget more, and damage more
        epsilon: keeps the variance finite where c is zero
        largest: the largest standard deviation of a weight's noise

    Reference:
        A. Golatkar, A. Achille, S. Soatto, Eternal Sunshine of the Spotless Net: Selective Forgetting in Deep Networks,
        CVPR 2020.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [32]}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: fisher_forget, forget: {type: one_class, label: 3}, alpha: 1e-6}
    """

    def __init__(
        self, forget: Forget, alpha: Positive = 1e-6, epsilon: Positive = 1e-8, largest: Positive = 1.0
    ) -> None:
        self.forget = forget
        self.alpha = alpha
        self.epsilon = epsilon
        self.largest = largest

    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        case = Case.of(trained, self.forget)
        edit = Edit(case)
        c = mean_square_gradient(case.model, case.task.loss, case.batches(case.stays, 256))
        drawn = torch.randn(len(c), generator=trained.generator("fisher noise"), dtype=torch.float64)
        noise = deviation(c, self.alpha, self.epsilon, self.largest) * drawn.to(c)
        parts = torch.split(noise, [shape.numel() for _, shape in layout_of(case.model)])
        with torch.no_grad():
            for parameter, part in zip(edit.parameters, parts, strict=True):
                parameter.add_(part.reshape(parameter.shape).to(parameter))
        return edit.end(noise_norm=float(noise.norm()))


def deviation(c: Tensor, alpha: float, epsilon: float, largest: float) -> Tensor:
    """(p,) standard deviation of each weight's noise."""
    return (alpha / (c + epsilon)).sqrt().clamp(max=largest)
