"""Regression against the worst shift of the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.tasks._checks import fits
from raycipe.components.tasks._responses import worst_shift_of_huber, worst_shift_of_square
from raycipe.components.tasks._saddle import (
    Format,
    by_example,
    check_targets_of_one,
    count_train,
    dtype_of,
    linear_weight,
    onto_ball,
    scores_of,
    train_tensor,
)
from raycipe.framework.arguments import NonNegative, Positive
from raycipe.framework.contracts import Batch, Point, Saddle, SaddleTask, Split
from raycipe.framework.registry import register


@register
class RobustRegression(SaddleTask):
    """Regression whose inputs an adversary shifts; reports loss (f) and rmse (on shifted inputs).

    f(w, v; x, y) = l(h_w(x + v) - y) - reg_v/2 |v|² with |v| <= budget; l is r², or Huber's. One shift is shared by all
    examples, or each training example has its own; held-out examples are then met by their worst one (linear models).
    With a linear model f is concave in v while reg_v >= 2 |w|² (huber: |w|²).

    Args:
        loss: square, or huber: r²/2 up to delta and linear beyond
        delta: where huber turns to the line, in the target's units
        budget: largest norm of a shift
        reg_v: what a shift costs the adversary
        v_scope: one shift for all examples, or one for each training example
        radius_w: w stays in a ball of this radius; auto takes the largest in which f is concave in v
        dtype: number format of both players

    Recipe:
        data: synthetic_regression
        model: {type: linear, bias: false, zero_init: true}
        task: {type: robust_regression, budget: 0.5, radius_w: 2.0, reg_v: 8.0}
        optimizer: {type: sgda, lr: 0.05}
    """

    reports: ClassVar[tuple[str, ...]] = ("loss", "rmse")

    def __init__(
        self,
        loss: Literal["square", "huber"] = "square",
        delta: Positive = 1.0,
        budget: Positive = 0.1,
        reg_v: NonNegative = 1.0,
        v_scope: Literal["shared", "sample"] = "shared",
        radius_w: Positive | Literal["auto"] = "auto",
        dtype: Format = "float64",
    ) -> None:
        if radius_w == "auto" and reg_v == 0:
            raise ValueError("radius_w: auto needs reg_v > 0: without it f is nowhere concave in v; give a radius")
        self.loss_name = loss
        self.delta = delta
        self.budget = budget
        self.reg_v = reg_v
        self.v_scope = v_scope
        self.radius_w = radius_w
        self.dtype = dtype

    @property
    def concave_radius(self) -> float:
        """Largest |w| for which f is concave in v."""
        return float((self.reg_v / 2 if self.loss_name == "square" else self.reg_v) ** 0.5)

    @property
    def radius(self) -> float:
        return self.concave_radius if self.radius_w == "auto" else float(self.radius_w)

    def variables(self, model: nn.Module, splits: Mapping[str, Split]) -> Saddle:
        rows = 1 if self.v_scope == "shared" else count_train(splits)
        width = train_tensor(splits, "x", "the shift needs the width of x")[:1].numel()
        return Saddle(model, {}, {"v": torch.zeros(rows, width)}, {}, dtype_of(self.dtype))

    def evaluate(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        return self._values(saddle, batch, by_example(saddle.max["v"], batch, self.v_scope))

    def evaluate_held_out(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        if self.v_scope == "shared":
            return self.evaluate(saddle, batch)
        shift = self._worst(saddle, batch)
        return self._values(saddle, batch, torch.zeros_like(saddle.max["v"][:1]) if shift is None else shift)

    def _values(self, saddle: Saddle, batch: Batch, shift: Tensor) -> tuple[Tensor, Any]:
        x = batch["x"].flatten(1).to(shift.dtype)
        outputs = scores_of(saddle(x + shift))
        residual = outputs - batch["y"].reshape(-1).to(shift.dtype)
        if self.loss_name == "square":
            losses = residual.square()
        else:
            losses = F.huber_loss(residual, torch.zeros_like(residual), reduction="none", delta=self.delta)
        return losses - self.reg_v / 2 * shift.square().sum(-1), residual

    def _worst(self, saddle: Saddle, batch: Batch) -> Tensor | None:
        """Each example's worst shift, (batch, d); None where the model is not linear or f not concave (huber)."""
        weight = linear_weight(saddle)
        if weight is None or (self.loss_name == "huber" and self.reg_v < float(weight.square().sum())):
            return None
        with torch.no_grad():
            x = batch["x"].flatten(1).to(weight.dtype)
            residual = scores_of(saddle(x)) - batch["y"].reshape(-1).to(weight.dtype)
            if self.loss_name == "square":
                return worst_shift_of_square(residual, weight, self.budget, self.reg_v)
            return worst_shift_of_huber(residual, weight, self.delta, self.budget, self.reg_v)

    def project(self, saddle: Saddle, w: Tensor, v: Tensor) -> Point:
        rows = v.reshape(*v.shape[:-1], *saddle.max["v"].shape)
        return onto_ball(w, self.radius), onto_ball(rows, self.budget).flatten(-2)

    def best_response(self, saddle: Saddle, batch: Batch) -> Tensor | None:
        if self.v_scope == "shared":
            return self._shared_response(saddle, batch)
        shift = self._worst(saddle, batch)
        if shift is None:
            return None
        rows = saddle.max["v"].detach().clone()
        rows[batch["id"]] = shift
        return rows.reshape(-1)

    def _shared_response(self, saddle: Saddle, batch: Batch) -> Tensor | None:
        """Along w the mean square is a quadratic: the mean residual takes the place of an example's."""
        weight = linear_weight(saddle)
        if weight is None or self.loss_name != "square":
            return None
        with torch.no_grad():
            x = batch["x"].flatten(1).to(weight.dtype)
            residual = (scores_of(saddle(x)) - batch["y"].reshape(-1).to(weight.dtype)).mean().reshape(1)
            return worst_shift_of_square(residual, weight, self.budget, self.reg_v)[0]

    def cautions(self) -> list[str]:
        if self.radius > self.concave_radius * (1 + 1e-12):
            return [
                f"f is not concave in v beyond |w| = {self.concave_radius:.4g}; task.radius_w allows {self.radius:g}"
            ]
        return []

    def check_outputs(self, outputs: Any, batch: Batch) -> str | None:
        fit = fits(outputs, (len(batch["y"]), 1)) or fits(outputs, (len(batch["y"]),))
        return None if fit else f"{(len(batch['y']), 1)} floating: one number an example"

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        return {"rmse": outputs.detach().double().square().sum()}

    def finish(self, values: dict[str, float]) -> dict[str, float]:
        """The mean square becomes its root only now: roots do not add up over batches."""
        return {**values, "rmse": values["rmse"] ** 0.5} if "rmse" in values else values

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        check_targets_of_one(splits, "robust regression")
