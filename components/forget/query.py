"""Examples in which a value lies between bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import torch
from torch import Tensor

from raycipe.components.forget._examples import FORGET, chosen, column
from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Forget, Split
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class Query(Forget):
    """Every training example in which a field, or one feature of it, lies between two bounds.

    F = {i: at_least <= z_i <= at_most}, with z_i the field's number `feature`, or the mean of its numbers.

    Args:
        field: what is looked at: `x`, `y`, or another field of the data (`groups`, ...)
        feature: which number of the flattened field, from 0; null takes the mean of all
        at_least: the lower bound, in the field's units as the model sees them; null for none
        at_most: the upper bound; null for none

    Recipe:
        data: breast_cancer
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: fine_tune, steps: 20, forget: {type: query, feature: 0, at_least: 2.0}}
    """

    def __init__(
        self,
        field: str = "x",
        feature: Annotated[int, Range(ge=0, le=10**9)] | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        if at_least is None and at_most is None:
            raise ValueError("at_least: give at least one bound, `at_least` or `at_most`")
        if at_least is not None and at_most is not None and at_least > at_most:
            raise ValueError(f"at_least: {at_least} lies above at_most {at_most}")
        self.field = field
        self.feature = feature
        self.at_least = at_least
        self.at_most = at_most

    def select(self, splits: Mapping[str, Split], seed: int) -> Tensor:
        return chosen(splits, self.related(splits["train"]), f"within the bounds of `{self.field}`")

    def related(self, split: Split) -> Tensor:
        values = (
            column(split, self.field).flatten(1)
            if column(split, self.field).dim() > 1
            else column(split, self.field).unsqueeze(1)
        )  # (examples, numbers)
        if self.feature is not None and self.feature >= values.shape[1]:
            message = f"`{self.field}` has {values.shape[1]} numbers an example, so there is no number {self.feature}"
            raise RunError("data", message, where=FORGET)
        z = values.double().mean(dim=1) if self.feature is None else values[:, self.feature].double()
        inside = torch.ones(len(z), dtype=torch.bool)
        if self.at_least is not None:
            inside &= z >= self.at_least
        if self.at_most is not None:
            inside &= z <= self.at_most
        return inside.nonzero().flatten()
