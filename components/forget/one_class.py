"""All examples of one class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from torch import Tensor

from raycipe.components.forget._examples import chosen, labels
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Forget, Split
from raycipe.framework.registry import register


@register
class OneClass(Forget):
    """Every training example of a class; the test accuracy of interest is then that of the other classes.

    F = {i: y_i = c}.

    Args:
        label: c, the number of the class (classes count from 0)

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: fine_tune, steps: 20, forget: {type: one_class, label: 3}}
    """

    def __init__(self, label: Annotated[int, Range(ge=0, le=10**6)]) -> None:
        self.label = label

    def select(self, splits: Mapping[str, Split], seed: int) -> Tensor:
        return chosen(splits, self.related(splits["train"]), f"of class {self.label}")

    def related(self, split: Split) -> Tensor:
        return (labels(split) == self.label).nonzero().flatten()
