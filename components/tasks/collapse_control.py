"""Classification whose features are kept from collapsing, or made to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from raycipe.components.measures._activations import activations
from raycipe.framework.arguments import Positive, default
from raycipe.framework.contracts import Batch, Loss, Skipped, Split, Task
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register

WEIGHTS = {"none": 0.0, "suppress": 10.0, "promote": 0.3}


@register
class CollapseControl(Task):
    """Another task of classes, with a penalty on how its features are spread within classes, in training alone.

    r = tr S_W / tr S_B of the batch's features (the part of each worker's batch). suppress adds
    weight · max(0, target - r)², so that features keep their spread; promote adds weight · r. Evaluations, and measures
    of curvature, see the other task's loss. A batch without two classes, one of them twice, has no penalty.

    Args:
        inner: the task
        mode: which penalty
        target: the spread that suppress asks for
        weight: strength of the penalty (null: 10 to suppress, 0.3 to promote)
        layer: penultimate (what the last linear module is given), logits, or a module's dotted path

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16]}
        task: {type: collapse_control, mode: suppress, inner: classification}
        optimizer: {type: sgd, lr: 0.05}
    """

    def __init__(
        self,
        inner: Task = default("classification"),
        mode: Literal["none", "suppress", "promote"] = "none",
        target: Positive = 3.0,
        weight: Positive | None = None,
        layer: str = "penultimate",
    ) -> None:
        self.inner = inner
        self.mode = mode
        self.target = target
        self.weight = weight
        self.layer = layer

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        if self.mode == "none" or not model.training:
            return self.inner.loss(model, batch)
        try:
            features, outputs = activations(model, batch["x"], self.layer)
        except Skipped as reason:
            raise RunError("recipe", str(reason), where="task.layer") from reason
        found = self.inner.loss(_Known(outputs), batch)
        spread = soft_nc1(features.flatten(1), batch["y"])
        if spread is None:
            return found
        penalty = (self.target - spread).clamp(min=0) ** 2 if self.mode == "suppress" else spread
        strength = WEIGHTS[self.mode] if self.weight is None else self.weight
        return Loss(found.value + strength * penalty, found.outputs, found.weight)

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        return self.inner.scores(outputs, batch)

    def metrics(self) -> dict[str, Any]:
        return self.inner.metrics()

    def update(self, metrics: Mapping[str, Any], outputs: Any, batch: Batch) -> None:
        self.inner.update(metrics, outputs, batch)

    def finish(self, values: dict[str, float]) -> dict[str, float]:
        return self.inner.finish(values)

    def reported(self) -> tuple[str, ...] | None:
        return self.inner.reported()

    def check_outputs(self, outputs: Any, batch: Batch) -> str | None:
        return self.inner.check_outputs(outputs, batch)

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        self.inner.check(facts, splits)


def soft_nc1(features: Tensor, labels: Tensor) -> Tensor | None:
    """tr S_W / tr S_B of features (n, d); None without two classes, or with one example of each."""
    classes, place = torch.unique(labels, return_inverse=True)
    if len(classes) < 2 or len(classes) == len(labels):
        return None
    member = nn.functional.one_hot(place, len(classes)).to(features)  # (n, K)
    means = member.T @ features / member.sum(dim=0)[:, None]
    within = (features - means[place]).square().sum(dim=1).mean()
    between = (means - means.mean(dim=0)).square().sum(dim=1).mean()
    return within / between.clamp(min=1e-12)


class _Known(nn.Module):
    """Stands for a model whose outputs are known."""

    def __init__(self, outputs: Tensor) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, x: Tensor) -> Tensor:
        return self.outputs
