"""Training data that an attacker shifts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.tasks._checks import fits, require_dtype, require_finite, require_range, tensors
from raycipe.components.tasks._saddle import Format, count_train, dtype_of, train_tensor
from raycipe.framework.arguments import FromData, NonNegative, Positive, Range, Share
from raycipe.framework.contracts import Batch, Point, Saddle, SaddleTask, Split
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator


@register
class Poisoning(SaddleTask):
    """Data poisoning: one shift of a part of the training examples that raises the loss of the classifier trained on
    them; reports loss (f) and accuracy. Not concave in v: exploratory.

    f(w, v; i) = cross-entropy(h_w(x_i + v [i is poisoned]), y_i) + weight_decay/2 |w|², max |v_k| <= budget. Held-out
    examples are clean.

    Args:
        num_classes: number of classes; the data knows it
        budget: largest shift of a feature
        fraction: share of the training examples that are shifted
        weight_decay: strength of the pull of w towards 0
        attack_seed: draws which examples are poisoned
        dtype: number format of both players

    Reference:
        S. Liu et al., Min-Max Optimization without Gradients: Convergence and Applications to Black-Box Evasion and
        Poisoning Attacks, ICML 2020.

    Recipe:
        data: breast_cancer
        model: linear
        task: {type: poisoning, budget: 2.0, fraction: 0.15}
        optimizer: {type: sgda, lr: 0.05, gradients: {type: zeroth_order, points: 10}}
    """

    reports: ClassVar[tuple[str, ...]] = ("loss", "accuracy")

    def __init__(
        self,
        num_classes: Annotated[int, Range(ge=2, le=10**6), FromData("num_classes")],
        budget: Positive = 2.0,
        fraction: Share = 0.1,
        weight_decay: NonNegative = 1e-3,
        attack_seed: int = 0,
        dtype: Format = "float64",
    ) -> None:
        self.num_classes = num_classes
        self.budget = budget
        self.fraction = fraction
        self.weight_decay = weight_decay
        self.attack_seed = attack_seed
        self.dtype = dtype

    def variables(self, model: nn.Module, splits: Mapping[str, Split]) -> Saddle:
        count = count_train(splits)
        shape = train_tensor(splits, "x", "the shift needs the shape of x").shape[1:]
        order = torch.randperm(count, generator=torch_generator(self.attack_seed, "poisoning"))
        poisoned = torch.zeros(count, dtype=torch.float64)
        poisoned[order[: max(1, round(self.fraction * count))]] = 1.0
        return Saddle(model, {}, {"v": torch.zeros(shape)}, {"poisoned": poisoned}, dtype_of(self.dtype))

    def evaluate(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        v = saddle.max["v"]
        share = saddle.get_buffer("poisoned")[batch["id"]]
        shift = share.reshape(-1, *([1] * v.dim())) * v
        return self._values(saddle, saddle(batch["x"].to(v.dtype) + shift), batch)

    def evaluate_held_out(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        return self._values(saddle, saddle(batch["x"]), batch)

    def _values(self, saddle: Saddle, outputs: Tensor, batch: Batch) -> tuple[Tensor, Any]:
        decay = sum(parameter.square().sum() for parameter in saddle.model.parameters())
        return F.cross_entropy(outputs, batch["y"], reduction="none") + self.weight_decay / 2 * decay, outputs

    def project(self, saddle: Saddle, w: Tensor, v: Tensor) -> Point:
        return w, v.clamp(-self.budget, self.budget)

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": (outputs.detach().argmax(dim=1) == batch["y"]).sum()}

    def cautions(self) -> list[str]:
        return ["poisoning is not concave in v: no theory holds for it, and runs may differ widely by their seed"]

    def check_outputs(self, outputs: Any, batch: Batch) -> str | None:
        shape = (len(batch["y"]), self.num_classes)
        return None if fits(outputs, shape) else f"{shape} floating: one logit a class"

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        for name, values in tensors(splits):
            require_dtype(name, "y", values["y"], (torch.int64,), "poisoning takes class numbers")
            require_range(name, "label", values["y"], self.num_classes, f"the model has {self.num_classes} outputs")
            require_finite(name, "x", values["x"])
