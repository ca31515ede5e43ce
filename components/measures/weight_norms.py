"""How large the weights are, and how far they moved."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from raycipe.framework.contracts import Measure, Measured, Trained
from raycipe.framework.registry import register


@register
class WeightNorms(Measure):
    """Euclidean norm of the weights, in all and per parameter, and their distance from the initial weights.

    norm = sqrt(sum w²), distance = sqrt(sum (w - w_0)²), largest = max |w|, all over trained parameters in float64.
    Without the initial model `distance` is left out.

    Recipe:
        data: digits
        model: mlp
        task: classification
        optimizer: sgd
        measures: [weight_norms]
    """

    reports: ClassVar[tuple[str, ...]] = ("norm", "largest", "distance")

    def measure(self, trained: Trained) -> Measured:
        assert trained.model is not None  # `needs` says so
        now = {name: p.detach().double() for name, p in trained.model.named_parameters() if p.requires_grad}
        values = {
            "norm": sum(float(w.square().sum()) for w in now.values()) ** 0.5,
            "largest": max((float(w.abs().max()) for w in now.values() if w.numel()), default=0.0),
        }
        rows: list[dict[str, Any]] = [{"parameter": name, "norm": float(w.norm())} for name, w in now.items()]
        if trained.initial_model is not None:
            start = dict(trained.initial_model().named_parameters())
            moved = [_distance(w, start[name]) for name, w in now.items()]
            values["distance"] = sum(d * d for d in moved) ** 0.5
            rows = [{**row, "distance": d} for row, d in zip(rows, moved, strict=True)]
        return Measured(values=values, tables={"norms": rows})


def _distance(now: Tensor, start: Tensor) -> float:
    return float((now - start.detach().double().to(now.device)).norm())
