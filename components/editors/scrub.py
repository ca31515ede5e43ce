"""A student that leaves its teacher on what goes, and stays with it elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import torch
from torch import Tensor, nn

from raycipe.components.editors._case import Case, Draws
from raycipe.components.editors._training import Edit, divergence, task_loss
from raycipe.framework.arguments import Count, NonNegative, Positive, Range
from raycipe.framework.contracts import Batch, Editor, Forget, Measured, Trained
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register

Losses = Iterator[Callable[[nn.Module], Tensor]]


@register
class Scrub(Editor):
    """SCRUB: the trained model as a teacher, whom the student contradicts on what goes and follows on what stays.

    Passes over what goes that maximize KL(teacher || student) alternate with passes over what stays that minimize
    alpha KL(teacher || student) + gamma loss; a few passes of the latter end it.

    Args:
        forget: the examples that are to be forgotten
        max_epochs: passes that maximize, each followed by one that minimizes
        min_epochs: passes that minimize altogether
        lr: learning rate of SGD
        momentum: share of the last step that is kept
        batch_size: examples that stay, in a step
        forget_batch_size: examples that go, in a step
        alpha: weight of the teacher's opinion on what stays
        gamma: weight of the labels there
        clip: largest norm of a gradient; null for no bound

    Reference:
        M. Kurmanji, P. Triantafillou, J. Hayes, E. Triantafillou, Towards Unbounded Machine Unlearning, NeurIPS 2023.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [32]}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: scrub, forget: {type: one_class, label: 3}}
    """

    def __init__(
        self,
        forget: Forget,
        max_epochs: Count = 2,
        min_epochs: Count = 5,
        lr: Positive = 0.01,
        momentum: Annotated[float, Range(ge=0, lt=1)] = 0.9,
        batch_size: Count = 128,
        forget_batch_size: Count = 64,
        alpha: NonNegative = 1.0,
        gamma: NonNegative = 1.0,
        clip: Positive | None = 1.0,
    ) -> None:
        if min_epochs < max_epochs:
            raise ValueError(f"min_epochs: must be at least max_epochs, {max_epochs}: each is followed by one")
        self.forget = forget
        self.max_epochs = max_epochs
        self.min_epochs = min_epochs
        self.lr = lr
        self.momentum = momentum
        self.batch_size = batch_size
        self.forget_batch_size = forget_batch_size
        self.alpha = alpha
        self.gamma = gamma
        self.clip = clip

    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        if "num_classes" not in trained.facts:
            raise RunError("data", "scrub compares class probabilities, and the data has no classes", where="editor")
        case = Case.of(trained, self.forget)
        edit = Edit(case)
        for epoch in range(self.min_epochs):
            if epoch < self.max_epochs:
                edit.descend(self._away(case), self.lr, self.momentum, self.clip, decay=False)
            edit.descend(self._back(case), self.lr, self.momentum, self.clip)
        return edit.end()

    def _away(self, case: Case) -> Losses:
        goes = Draws(case, case.goes, self.forget_batch_size, "forget batches")
        for _ in range(-(-len(case.goes) // self.forget_batch_size)):
            batch = goes.next()
            yield lambda model, batch=batch: -self._apart(case, model, batch)  # type: ignore[misc]

    def _back(self, case: Case) -> Losses:
        stays = Draws(case, case.stays, self.batch_size, "retain batches")
        for _ in range(-(-len(case.stays) // self.batch_size)):
            batch = stays.next()
            yield lambda model, batch=batch: (  # type: ignore[misc]
                self.alpha * self._apart(case, model, batch) + self.gamma * task_loss(case, batch)(model)
            )

    def _apart(self, case: Case, student: nn.Module, batch: Batch) -> Tensor:
        with torch.no_grad():
            teacher = case.model(batch["x"])
        return divergence(student(batch["x"]), teacher)
