"""Every parameter."""

from __future__ import annotations

import torch
from torch import Tensor

from raycipe.framework.contracts import Landscape, Subspace
from raycipe.framework.registry import register


@register
class All(Subspace):
    """Every trained parameter: the unrestricted edit of influence functions.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: gif, forget: {type: one_class, label: 3}, subspace: all}
    """

    def select(self, landscape: Landscape) -> Tensor:
        return torch.arange(sum(shape.numel() for _, shape in landscape.layout))
