"""Classification with one training example whose loss is NaN."""

from __future__ import annotations

from torch import Tensor, nn

from raycipe.framework.contracts import Batch, Loss, Task
from raycipe.framework.registry import register


@register
class Poisoned(Task):
    """Cross-entropy that is NaN for a batch with a certain example, while the model trains.

    Args:
        example: its id
    """

    def __init__(self, example: int) -> None:
        self.example = example

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        outputs = model(batch["x"])
        value = nn.functional.cross_entropy(outputs, batch["y"])
        bad = model.training and bool((batch["id"] == self.example).any())
        return Loss(value * (float("nan") if bad else 1.0), outputs)

    def scores(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": (outputs.detach().argmax(1) == batch["y"]).sum()}
