"""Two classes against the worst shift of the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.tasks._checks import fits
from raycipe.components.tasks._responses import worst_shift_of_logistic
from raycipe.components.tasks._saddle import (
    Format,
    by_example,
    check_two_classes,
    count_train,
    dtype_of,
    is_positive,
    linear_weight,
    onto_ball,
    scores_of,
    train_tensor,
)
from raycipe.framework.arguments import NonNegative, Positive
from raycipe.framework.contracts import Batch, Point, Saddle, SaddleTask, Split
from raycipe.framework.registry import register


@register
class AdversarialLogistic(SaddleTask):
    """Logistic regression whose inputs an adversary shifts; reports loss (f) and accuracy (on shifted inputs).

    f(w, v; x, y) = log(1 + exp(-y h_w(x + v))) - reg_v/2 |v|² with y = +-1 and |v| <= epsilon in the l2 or the
    maximum norm. One shift is shared by all examples, or each training example has its own; held-out examples are then
    met by their worst one (linear models). With a linear model f is concave in v while reg_v >= |w|²/4.

    Args:
        epsilon: largest norm of a shift
        norm: l2, or linf: the largest entry
        reg_v: what a shift costs the adversary
        v_scope: one shift for all examples, or one for each training example
        positive: the labels that count as positive; null takes label 1 of two
        radius_w: w stays in a ball of this radius; null for no bound
        dtype: number format of both players

    Reference:
        A. Madry, A. Makelov, L. Schmidt, D. Tsipras, A. Vladu, Towards Deep Learning Models Resistant to Adversarial
        Attacks, ICLR 2018.

    Recipe:
        data: breast_cancer
        model: {type: linear, num_outputs: 1, zero_init: true}
        task: {type: adversarial_logistic, v_scope: sample, epsilon: 0.5}
        optimizer: {type: sgda, lr: 0.2, lr_v: 10.0}
    """

    reports: ClassVar[tuple[str, ...]] = ("loss", "accuracy")

    def __init__(
        self,
        epsilon: Positive = 0.1,
        norm: Literal["l2", "linf"] = "l2",
        reg_v: NonNegative = 1.0,
        v_scope: Literal["shared", "sample"] = "shared",
        positive: list[int] | None = None,
        radius_w: Positive | None = None,
        dtype: Format = "float64",
    ) -> None:
        self.epsilon = epsilon
        self.norm = norm
        self.reg_v = reg_v
        self.v_scope = v_scope
        self.positive = positive
        self.radius_w = radius_w
        self.dtype = dtype

    def variables(self, model: nn.Module, splits: Mapping[str, Split]) -> Saddle:
        rows = 1 if self.v_scope == "shared" else count_train(splits)
        width = train_tensor(splits, "x", "the shift needs the width of x")[:1].numel()
        return Saddle(model, {}, {"v": torch.zeros(rows, width)}, {}, dtype_of(self.dtype))

    def _signs(self, batch: Batch, dtype: torch.dtype) -> Tensor:
        return is_positive(batch["y"], self.positive).to(dtype) * 2 - 1

    def evaluate(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        return self._values(saddle, batch, by_example(saddle.max["v"], batch, self.v_scope))

    def evaluate_held_out(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        if self.v_scope == "shared":
            return self.evaluate(saddle, batch)
        shift = self._worst(saddle, batch)
        return self._values(saddle, batch, torch.zeros_like(saddle.max["v"][:1]) if shift is None else shift)

    def _values(self, saddle: Saddle, batch: Batch, shift: Tensor) -> tuple[Tensor, Any]:
        margin = scores_of(saddle(batch["x"].flatten(1).to(shift.dtype) + shift)) * self._signs(batch, shift.dtype)
        return F.softplus(-margin) - self.reg_v / 2 * shift.square().sum(-1), margin

    @torch.no_grad()
    def _worst(self, saddle: Saddle, batch: Batch) -> Tensor | None:
        weight = linear_weight(saddle)
        if weight is None or 0 < self.reg_v < float(weight.square().sum()) / 4:
            return None
        signs = self._signs(batch, weight.dtype)
        margin = scores_of(saddle(batch["x"].flatten(1).to(weight.dtype))) * signs
        return worst_shift_of_logistic(margin, signs, weight, self.epsilon, self.norm, self.reg_v)

    def project(self, saddle: Saddle, w: Tensor, v: Tensor) -> Point:
        if self.radius_w is not None:
            w = onto_ball(w, self.radius_w)
        if self.norm == "linf":
            return w, v.clamp(-self.epsilon, self.epsilon)
        rows = v.reshape(*v.shape[:-1], *saddle.max["v"].shape)
        return w, onto_ball(rows, self.epsilon).flatten(-2)

    def best_response(self, saddle: Saddle, batch: Batch) -> Tensor | None:
        shift = self._worst(saddle, batch) if self.v_scope == "sample" else None
        if shift is None:
            return None
        rows = saddle.max["v"].detach().clone()
        rows[batch["id"]] = shift
        return rows.reshape(-1)

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": (outputs.detach() > 0).sum()}

    def cautions(self) -> list[str]:
        limit = 2 * self.reg_v**0.5
        if self.reg_v and (self.radius_w is None or self.radius_w > limit):
            return [f"f is concave in v only while |w| <= {limit:.4g} (2 sqrt(reg_v)): set task.radius_w to keep it so"]
        return []

    def check_outputs(self, outputs: Any, batch: Batch) -> str | None:
        fit = fits(outputs, (len(batch["y"]), 1)) or fits(outputs, (len(batch["y"]),))
        return None if fit else f"{(len(batch['y']), 1)} floating: one score an example (set model.num_outputs: 1)"

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        check_two_classes(facts, splits, self.positive, "adversarial_logistic")
