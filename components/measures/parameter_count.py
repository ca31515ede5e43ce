"""How large the model is."""

from __future__ import annotations

from typing import ClassVar

from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import register


@register
class ParameterCount(Measure):
    """Number of parameters of the model, of those that are trained, and bytes of its weights and buffers.

    A tensor that the model uses twice (tied weights) counts once.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: sgd
        measures: [parameter_count]
    """

    reports: ClassVar[tuple[str, ...]] = ("total", "trainable", "bytes")

    def measure(self, trained: Trained) -> Measured:
        model = trained.model
        assert model is not None  # `needs` says so
        parameters = list(model.parameters())
        tensors = [*parameters, *model.buffers()]
        children = {name: sum(p.numel() for p in child.parameters()) for name, child in model.named_children()}
        return Measured(
            values={
                "total": float(sum(p.numel() for p in parameters)),
                "trainable": float(sum(p.numel() for p in parameters if p.requires_grad)),
                "bytes": float(sum(t.numel() * t.element_size() for t in tensors)),
            },
            tables={"parts": [{"part": name, "parameters": count} for name, count in children.items()]},
        )
