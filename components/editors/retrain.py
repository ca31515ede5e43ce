"""The oracle: training without what goes."""

from __future__ import annotations

from torch import nn

from raycipe.components.editors._case import Case
from raycipe.components.editors._strength import retrained
from raycipe.components.editors._training import Edit
from raycipe.framework.contracts import Editor, Forget, Measured, Trained
from raycipe.framework.registry import register


@register
class Retrain(Editor):
    """Trains the recipe again on the examples that stay, with the same seed: what every other editor stands in for.

    Args:
        forget: the examples that are to be forgotten

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16]}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        train: {epochs: 1}
        editor: {type: retrain, forget: {type: one_class, label: 3}}
    """

    def __init__(self, forget: Forget) -> None:
        self.forget = forget

    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        case = Case.of(trained, self.forget)
        edit = Edit(case)
        edit.model.load_state_dict(retrained(trained, case.stays).state_dict())
        return edit.end()
