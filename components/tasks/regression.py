"""Measured targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raycipe.components.tasks._checks import fits, require_dtype, require_finite, tensors
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Batch, Loss, Split, Task
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class Regression(Task):
    """Regression; reports loss, rmse and mae, in the units of the target.

    loss = mean over examples and target dimensions of l(f(x) - y): r² for `mse`, |r| for `mae`, and for `huber`
    r²/2 where |r| <= delta, delta (|r| - delta/2) beyond. The model gives (batch, d), y is (batch, d) or (batch,).

    Args:
        loss: what is minimized; mae and huber care less about outliers
        delta: where huber turns from the square to the line, in the target's units
        metrics: further figures of an evaluation, exact over all workers; r2 is averaged over the target dimensions

    Reference:
        P. J. Huber, Robust Estimation of a Location Parameter, Annals of Mathematical Statistics, 1964.

    Recipe:
        data: synthetic_regression
        model: linear
        task: {type: regression, loss: huber, delta: 1.0, metrics: [r2]}
        optimizer: {type: sgd, lr: 0.1}
    """

    reports: ClassVar[tuple[str, ...]] = ("loss", "rmse", "mae", "r2")

    def __init__(
        self,
        loss: Literal["mse", "mae", "huber"] = "mse",
        delta: Positive = 1.0,
        metrics: list[Literal["r2"]] = [],  # noqa: B006 (never changed)
    ) -> None:
        self.loss_name = loss
        self.delta = delta
        self.metric_names = metrics

    def reported(self) -> tuple[str, ...]:
        return ("loss", "rmse", "mae", *self.metric_names)

    def check_outputs(self, outputs: Any, batch: Batch) -> str | None:
        y = batch["y"]
        shape = tuple(y.shape) if y.dim() > 1 else (len(y), 1)
        fit = fits(outputs, shape) or fits(outputs, tuple(y.shape))
        return None if fit else f"{shape} floating: one number a target dimension"

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        outputs = model(batch["x"])  # (batch, d)
        y = batch["y"].reshape(outputs.shape)
        if self.loss_name == "mse":
            return Loss(F.mse_loss(outputs, y), outputs)
        if self.loss_name == "mae":
            return Loss(F.l1_loss(outputs, y), outputs)
        return Loss(F.huber_loss(outputs, y, delta=self.delta), outputs)

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        residual = (outputs.detach().double() - batch["y"].reshape(outputs.shape).double()).flatten(1)  # (batch, d)
        return {"rmse": residual.square().mean(dim=1).sum(), "mae": residual.abs().mean(dim=1).sum()}

    def finish(self, values: dict[str, float]) -> dict[str, float]:
        """The mean square becomes its root only now: roots do not add up over batches."""
        return {**values, "rmse": values["rmse"] ** 0.5} if "rmse" in values else values

    def metrics(self) -> dict[str, Any]:
        if not self.metric_names:
            return {}
        from torchmetrics.regression import R2Score

        return {"r2": R2Score(multioutput="uniform_average", sync_on_compute=False)}

    def update(self, metrics: Mapping[str, Any], outputs: Any, batch: Batch) -> None:
        for metric in metrics.values():
            metric.update(outputs.detach().float().flatten(1), batch["y"].reshape(outputs.shape).float().flatten(1))

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        for name, values in tensors(splits):
            hint = (
                "for classes choose `task: classification`; "
                "whole numbers of a table are measured targets with `data.target_type: number`"
            )
            require_dtype(name, "y", values["y"], (torch.float32, torch.float64), hint)
            width = values["y"][:1].numel()
            if width != facts["num_outputs"]:
                message = (
                    f"{name}: y holds {width} numbers an example, but the model has {facts['num_outputs']} outputs"
                )
                raise RunError("data", message, where="data")
            require_finite(name, "y", values["y"])
            require_finite(name, "x", values["x"])
