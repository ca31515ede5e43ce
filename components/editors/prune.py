"""Sets small weights to zero."""

from __future__ import annotations

import copy
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from raycipe.framework.arguments import Range
from raycipe.framework.contracts import Editor, Measured, Trained
from raycipe.framework.registry import register


@register
class Prune(Editor):
    """Magnitude pruning: the weights smallest in absolute value become zero; nothing is trained afterwards.

    Of all weights with two or more dimensions (biases and norms stay) the share s with the smallest |w| is set to 0,
    ties in the order of the parameters. The edited model has the same shapes.

    Args:
        share: s; the model loses accuracy slowly at first, then all at once
        scope: the smallest of the whole model, or of each parameter by itself

    Reference:
        S. Han, J. Pool, J. Tran, W. Dally, Learning both Weights and Connections for Efficient Neural Networks,
        NeurIPS 2015.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: sgd
        editor: {type: prune, share: 0.5}
    """

    needs: ClassVar[tuple[str, ...]] = ("model",)
    reports: ClassVar[tuple[str, ...]] = ("pruned", "sparsity", "norm_kept")

    def __init__(
        self, share: Annotated[float, Range(gt=0, lt=1)] = 0.5, scope: Literal["model", "parameter"] = "model"
    ) -> None:
        self.share = share
        self.scope = scope

    def edit(self, trained: Trained) -> tuple[nn.Module, Measured]:
        assert trained.model is not None  # it is needed
        edited = copy.deepcopy(trained.model)
        weights = {name: weight for name, weight in edited.named_parameters() if weight.dim() > 1}
        rows: list[dict[str, Any]] = []
        with torch.no_grad():
            before = float(sum(weight.double().square().sum() for weight in weights.values()))
            kept = keep(list(weights.values()), self.share, self.scope == "model")
            for (name, weight), mask in zip(weights.items(), kept, strict=True):
                weight.mul_(mask)
                rows.append({"parameter": name, "weights": mask.numel(), "pruned": int((~mask).sum())})
            after = float(sum(weight.double().square().sum() for weight in weights.values()))
        pruned = sum(row["pruned"] for row in rows)
        total = sum(parameter.numel() for parameter in edited.parameters())
        values = {
            "pruned": float(pruned),
            "sparsity": pruned / total,
            "norm_kept": (after / before) ** 0.5 if before else 1.0,
        }
        return edited, Measured(values=values, tables={"parameters": rows})


def keep(weights: list[Tensor], share: float, together: bool) -> list[Tensor]:
    """A boolean mask for each weight: False for the floor(share · n) smallest, of all together or of each."""
    if not together:
        return [keep([weight], share, True)[0] for weight in weights]
    sizes = [weight.numel() for weight in weights]
    flat = torch.cat([weight.detach().abs().reshape(-1) for weight in weights])
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[torch.sort(flat, stable=True).indices[: int(share * len(flat))]] = False
    return [part.reshape(weight.shape) for part, weight in zip(torch.split(mask, sizes), weights, strict=True)]
