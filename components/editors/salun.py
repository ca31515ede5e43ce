"""Wrong labels for what goes, in the weights that matter to it."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from raycipe.components.editors._case import Case
from raycipe.components.editors._objective import Objective, layout_of
from raycipe.components.editors._training import Edit
from raycipe.components.editors.random_label import relabel
from raycipe.framework.arguments import Count, Positive, Range, Share
from raycipe.framework.contracts import Editor, Forget, Measured, Trained
from raycipe.framework.registry import register


@register
class Salun(Editor):
    """Saliency unlearning: `random_label` that moves only the weights with a large gradient on what goes.

    m = [|grad L_F(w)| is among the share mask_ratio of largest]; w <- w - lr m * grad(L_R + L_F').

    Args:
        forget: the examples that are to be forgotten
        steps: of SGD
        lr: learning rate
        momentum: share of the last step that is kept
        batch_size: examples that stay, in a step
        forget_batch_size: examples that go, in a step
        mask_ratio: share of the weights that move; 0.5 are those above the median

    Reference:
        C. Fan, J. Liu, Y. Zhang, E. Wong, D. Wei, S. Liu, SalUn: Empowering Machine Unlearning via Gradient-based
        Weight Saliency, ICLR 2024.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [32]}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: salun, forget: {type: one_class, label: 3}, steps: 100}
    """

    def __init__(
        self,
        forget: Forget,
        steps: Count = 200,
        lr: Positive = 0.1,
        momentum: Annotated[float, Range(ge=0, lt=1)] = 0.0,
        batch_size: Count = 128,
        forget_batch_size: Count = 64,
        mask_ratio: Share = 0.5,
    ) -> None:
        self.forget = forget
        self.steps = steps
        self.lr = lr
        self.momentum = momentum
        self.batch_size = batch_size
        self.forget_batch_size = forget_batch_size
        self.mask_ratio = mask_ratio

    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        case = Case.of(trained, self.forget)
        edit = Edit(case)
        gradient = Objective(case, case.model, case.stays).gradient_of(case.goes)
        mask = saliency(gradient, self.mask_ratio)
        shapes = [shape for _, shape in layout_of(case.model)]
        parts = torch.split(mask, [shape.numel() for shape in shapes])
        masks = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        relabel(edit, case, self.steps, self.lr, self.momentum, self.batch_size, self.forget_batch_size, masks)
        return edit.end(selected_share=float(mask.double().mean()))


def saliency(gradient: Tensor, share: float) -> Tensor:
    """(p,) True for the ceil(share · p) largest |gradient|, ties by index."""
    count = -int(-share * len(gradient) // 1)
    mask = torch.zeros(len(gradient), dtype=torch.bool, device=gradient.device)
    mask[torch.sort(gradient.abs(), descending=True, stable=True).indices[:count]] = True
    return mask
