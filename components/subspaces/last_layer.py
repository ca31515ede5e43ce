"""The last layer."""

from __future__ import annotations

import torch
from torch import Tensor

from raycipe.framework.contracts import Landscape, Subspace
from raycipe.framework.registry import register


@register
class LastLayer(Subspace):
    """The parameters of the last layer (the last module that has some): products with the curvature then leave out all
    layers before it, whose outputs are computed once.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: gif, forget: {type: one_class, label: 3}, subspace: last_layer}
    """

    def select(self, landscape: Landscape) -> Tensor:
        last = landscape.layout[-1][0].rpartition(".")[0]
        start, found = 0, []
        for name, shape in landscape.layout:
            if name.rpartition(".")[0] == last:
                found.append(torch.arange(start, start + shape.numel()))
            start += shape.numel()
        return torch.cat(found)
