"""Other data, without some of the training examples."""

from __future__ import annotations

import torch

from raycipe.framework.contracts import Data, Forget, Split
from raycipe.framework.registry import register
from raycipe.framework.splits import subset


@register
class Without(Data):
    """Other data, without the training examples of a request: what a model that never saw them is trained on.

    `val` and `test` stay as they are, so that such a run can be compared with the run on all data and with an edited
    model. The examples that stay keep their order and get ids of their own.

    Args:
        data: the data that examples are taken from
        forget: which examples go

    Recipe:
        data: {type: without, data: digits, forget: {type: one_class, label: 3}}
        model: {type: mlp, hidden: [64]}
        task: classification
        optimizer: {type: sgd, lr: 0.1}
    """

    def __init__(self, data: Data, forget: Forget) -> None:
        self.data = data
        self.forget = forget

    def load(self, seed: int) -> dict[str, Split]:
        splits = self.data.load(seed)
        self.facts = dict(self.data.facts)
        stays = torch.ones(len(splits["train"]), dtype=torch.bool)
        stays[self.forget.select(splits, seed)] = False
        return {**splits, "train": subset(splits["train"], stays.nonzero().flatten())}
