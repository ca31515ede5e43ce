"""Climbing the loss of what goes."""

from __future__ import annotations

from torch import nn

from raycipe.components.editors._case import Case, Draws
from raycipe.components.editors._strength import accuracy
from raycipe.components.editors._training import Edit, task_loss
from raycipe.framework.arguments import Count, Fraction, Positive
from raycipe.framework.contracts import Editor, Forget, Measured, Trained
from raycipe.framework.registry import register


@register
class GradientAscent(Editor):
    """Gradient ascent on the examples that go: fast, and nothing protects the others. A baseline.

    w <- w + lr clip(g_B) for random batches B of what goes.

    Args:
        forget: the examples that are to be forgotten
        steps: the most that are taken
        lr: learning rate
        batch_size: examples of a step
        clip: largest norm of a gradient; null for no bound
        stop_at_forget_accuracy: ends once the accuracy on what goes is no higher; null takes all steps

    Reference:
        L. Graves, V. Nagisetty, V. Ganesh, Amnesiac Machine Learning, AAAI 2021.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [32]}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: gradient_ascent, forget: {type: one_class, label: 3}, stop_at_forget_accuracy: 0.01}
    """

    def __init__(
        self,
        forget: Forget,
        steps: Count = 30,
        lr: Positive = 0.01,
        batch_size: Count = 64,
        clip: Positive | None = 1.0,
        stop_at_forget_accuracy: Fraction | None = None,
    ) -> None:
        self.forget = forget
        self.steps = steps
        self.lr = lr
        self.batch_size = batch_size
        self.clip = clip
        self.stop_at_forget_accuracy = stop_at_forget_accuracy

    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        case = Case.of(trained, self.forget)
        edit = Edit(case)
        goes = Draws(case, case.goes, self.batch_size, "forget batches")
        losses = [task_loss(case, goes.next()) for _ in range(self.steps)]
        climb = ((lambda model, loss=loss: -loss(model)) for loss in losses)
        bound = self.stop_at_forget_accuracy

        def is_enough(model: nn.Module) -> bool:
            return bound is not None and accuracy(case, model, case.goes) <= bound

        edit.descend(climb, self.lr, clip=self.clip, decay=False, is_enough=is_enough)
        return edit.end()
