"""Training on, on what stays."""

from __future__ import annotations

from typing import Annotated

from torch import nn

from raycipe.components.editors._case import Case, Draws
from raycipe.components.editors._training import Edit, task_loss
from raycipe.framework.arguments import Count, Positive, Range
from raycipe.framework.contracts import Editor, Forget, Measured, Trained
from raycipe.framework.registry import register


@register
class FineTune(Editor):
    """Fine-tuning on the examples that stay, in the hope that the others are forgotten: a baseline.

    Steps of SGD on the loss of random batches of what stays, with the training's weight decay.

    Args:
        forget: the examples that are to be forgotten
        steps: of SGD
        lr: learning rate
        momentum: share of the last step that is kept
        batch_size: examples of a step

    Reference:
        A. Warnecke, L. Pirch, C. Wressnegger, K. Rieck, Machine Unlearning of Features and Labels, NDSS 2023.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [32]}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: fine_tune, forget: {type: one_class, label: 3}, steps: 100}
    """

    def __init__(
        self,
        forget: Forget,
        steps: Count = 200,
        lr: Positive = 0.1,
        momentum: Annotated[float, Range(ge=0, lt=1)] = 0.0,
        batch_size: Count = 128,
    ) -> None:
        self.forget = forget
        self.steps = steps
        self.lr = lr
        self.momentum = momentum
        self.batch_size = batch_size

    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        case = Case.of(trained, self.forget)
        edit = Edit(case)
        stays = Draws(case, case.stays, self.batch_size, "retain batches")
        edit.descend((task_loss(case, stays.next()) for _ in range(self.steps)), self.lr, self.momentum)
        return edit.end()
