"""Wrong labels for what goes."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor, nn

from raycipe.components.editors._case import Case, Draws
from raycipe.components.editors._training import Edit, task_loss, wrong_labels
from raycipe.framework.arguments import Count, Positive, Range
from raycipe.framework.contracts import Editor, Forget, Measured, Trained
from raycipe.framework.registry import register


@register
class RandomLabel(Editor):
    """Training on with random wrong labels for the examples that go, and the right ones for the others: a baseline.

    Steps of SGD on L_R(batch) + L_F'(batch), F' what goes with classes drawn once, never the true one.

    Args:
        forget: the examples that are to be forgotten
        steps: of SGD
        lr: learning rate
        momentum: share of the last step that is kept
        batch_size: examples that stay, in a step
        forget_batch_size: examples that go, in a step

    Reference:
        A. Golatkar, A. Achille, S. Soatto, Eternal Sunshine of the Spotless Net, CVPR 2020.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [32]}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: random_label, forget: {type: one_class, label: 3}, steps: 100}
    """

    def __init__(
        self,
        forget: Forget,
        steps: Count = 200,
        lr: Positive = 0.1,
        momentum: Annotated[float, Range(ge=0, lt=1)] = 0.0,
        batch_size: Count = 128,
        forget_batch_size: Count = 64,
    ) -> None:
        self.forget = forget
        self.steps = steps
        self.lr = lr
        self.momentum = momentum
        self.batch_size = batch_size
        self.forget_batch_size = forget_batch_size

    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        case = Case.of(trained, self.forget)
        edit = Edit(case)
        relabel(edit, case, self.steps, self.lr, self.momentum, self.batch_size, self.forget_batch_size)
        return edit.end()


def relabel(
    edit: Edit,
    case: Case,
    steps: int,
    lr: float,
    momentum: float,
    batch_size: int,
    forget_batch_size: int,
    mask: list[Tensor] | None = None,
) -> None:
    """The steps themselves; `mask` says which entries may move."""
    stays = Draws(case, case.stays, batch_size, "retain batches")
    goes = Draws(case, wrong_labels(case), forget_batch_size, "forget batches")

    def loss(model: nn.Module) -> Tensor:
        return task_loss(case, stays.next())(model) + task_loss(case, goes.next())(model)

    edit.descend((loss for _ in range(steps)), lr, momentum, mask=mask)
