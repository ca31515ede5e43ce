"""Damping of the weights that matter to what goes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raycipe.components.editors._case import Case
from raycipe.components.editors._objective import layout_of
from raycipe.components.editors._training import Edit
from raycipe.framework.arguments import NonNegative, Positive
from raycipe.framework.contracts import Editor, Forget, Measured, Trained
from raycipe.framework.curvature import mean_square_gradient
from raycipe.framework.registry import register


@register
class Ssd(Editor):
    """Selective synaptic dampening: weights that matter to what goes far more than to all data are made smaller.

    With c the mean squared gradient over all training examples and c_F over those that go, where c_F > alpha c:
    w <- w min(dampening c / c_F, 1). Nothing is trained.

    Args:
        forget: the examples that are to be forgotten
        alpha: how many times more a weight must matter; larger values change fewer
        dampening: of the weights that are changed; smaller values shrink them more

    Reference:
        J. Foster, S. Schoepf, A. Brintrup, Fast Machine Unlearning Without Retraining Through Selective Synaptic
        Dampening, AAAI 2024.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [32]}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: ssd, forget: {type: one_class, label: 3}, alpha: 5}
    """

    def __init__(self, forget: Forget, alpha: Positive = 10.0, dampening: NonNegative = 1.0) -> None:
        self.forget = forget
        self.alpha = alpha
        self.dampening = dampening

    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        case = Case.of(trained, self.forget)
        edit = Edit(case)
        of_all, of_forget = (
            mean_square_gradient(case.model, case.task.loss, case.batches(split, 256))
            for split in (case.train, case.goes)
        )
        factor = dampened(of_all, of_forget, self.alpha, self.dampening)
        parts = torch.split(factor, [shape.numel() for _, shape in layout_of(case.model)])
        with torch.no_grad():
            for parameter, part in zip(edit.parameters, parts, strict=True):
                parameter.mul_(part.reshape(parameter.shape).to(parameter))
        return edit.end(selected_share=float((factor != 1).double().mean()))


def dampened(of_all: Tensor, of_forget: Tensor, alpha: float, dampening: float) -> Tensor:
    """(p,) what each weight is multiplied by."""
    factor = (dampening * of_all / of_forget.clamp(min=torch.finfo(of_forget.dtype).tiny)).clamp(max=1.0)
    return torch.where(of_forget > alpha * of_all, factor, torch.ones_like(factor))
