"""Shared by the editors that train on: what they report, and their steps."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.editors._case import Case
from raycipe.framework.contracts import Batch, Measured, Split, TensorSplit
from raycipe.framework.errors import RunError

SHARED = ("seconds", "steps")


class Edit:
    """A copy of the model to train on, and what is reported of it at the end."""

    def __init__(self, case: Case) -> None:
        self.case, self.began = case, time.monotonic()
        self.model = copy.deepcopy(case.model)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.steps = 0

    def descend(
        self,
        losses: Iterable[Callable[[nn.Module], Tensor]],
        lr: float,
        momentum: float = 0.0,
        clip: float | None = None,
        mask: list[Tensor] | None = None,
        decay: bool = True,
        is_enough: Callable[[nn.Module], bool] = lambda model: False,
    ) -> None:
        """One step of SGD for each loss. `mask` leaves entries as they are; ends early where it `is_enough`."""
        wd = self.case.weight_decay if decay else 0.0
        optimizer = torch.optim.SGD(self.parameters, lr=lr, momentum=momentum)
        with training_mode(self.model):
            for loss in losses:
                if is_enough(self.model):
                    return
                optimizer.zero_grad()
                loss(self.model).backward()  # type: ignore[no-untyped-call]
                for place, parameter in enumerate(self.parameters):
                    gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                    gradient = gradient + wd * parameter.detach()
                    parameter.grad = gradient if mask is None else gradient * mask[place]
                if clip is not None:
                    nn.utils.clip_grad_norm_(self.parameters, clip)
                optimizer.step()
                self.steps += 1
        if not all(bool(torch.isfinite(p).all()) for p in self.parameters):
            hint = "a smaller `lr`, or `clip` where there is one"
            raise RunError("nonfinite", "the weights are no longer finite after the edit", hint, "editor.lr")

    def end(self, **values: float) -> tuple[nn.Module, Measured]:
        """The edited model and the evidence: the task's figures on what goes and what stays, before and after."""
        seconds = time.monotonic() - self.began
        case, model = self.case, self.model.eval()
        for parameter in model.parameters():
            parameter.grad = None
        found = {"seconds": seconds, "steps": float(self.steps), **values}
        found |= case.figures(case.model, "before") | case.figures(model, "after")
        return model, Measured(found, text={"notes": "\n".join(case.notes)} if case.notes else {})


@contextmanager
def training_mode(model: nn.Module) -> Iterator[None]:
    """Dropout and batch statistics as in training, inside."""
    model.train()
    try:
        yield
    finally:
        model.eval()


def task_loss(case: Case, batch: Batch) -> Callable[[nn.Module], Tensor]:
    return lambda model: case.task.loss(model, batch).value


def wrong_labels(case: Case) -> Split:
    """What goes with classes drawn uniformly from the wrong ones. Raises RunError where there are no classes."""
    classes = case.trained.facts.get("num_classes")
    if classes is None or not isinstance(case.goes, TensorSplit):
        raise RunError("data", "wrong labels need classes in memory, and the data has none", where="editor")
    y = case.goes.tensors["y"]
    shift = torch.randint(1, classes, y.shape, generator=case.trained.generator("wrong labels"))
    return TensorSplit({**case.goes.tensors, "y": (y + shift) % classes})


def divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """KL(teacher || student) of class probabilities, the mean over examples; from logits (batch, classes)."""
    return F.kl_div(student.log_softmax(dim=1), teacher.log_softmax(dim=1), reduction="batchmean", log_target=True)
