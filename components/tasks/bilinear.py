"""Two players on a bilinear surface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from raycipe.components.tasks._saddle import Format, dtype_of, train_tensor
from raycipe.framework.arguments import NonNegative
from raycipe.framework.contracts import Batch, Saddle, SaddleTask, Split
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class Bilinear(SaddleTask):
    """A bilinear game, on which plain descent-ascent runs away from the saddle; reports loss (f) and distance.

    f(w, v; z) = mu_w/2 |w|² + w'A v - mu_v/2 |v|² + x'w - y'v, saddle at 0 for x = y = 0; distance = |w|² + |v|².
    w is the model's point (model `point`), v starts at `start`; x and y disturb the players' gradients.

    Args:
        matrix: A, one list a row of w; null takes the identity
        mu_w: curvature towards w's optimum; 0 makes the game circle
        mu_v: curvature towards v's optimum
        start: the start value of each entry of v
        dtype: number format of both players

    Reference:
        C. Daskalakis, A. Ilyas, V. Syrgkanis, H. Zeng, Training GANs with Optimism, ICLR 2018.

    Recipe:
        data: {type: player_noise, dim: 1}
        model: {type: point, start: 1.0}
        task: {type: bilinear, matrix: [[2.0]]}
        optimizer: {type: extragradient, lr: 0.1}
    """

    reports: ClassVar[tuple[str, ...]] = ("loss", "distance")

    def __init__(
        self,
        matrix: list[list[float]] | None = None,
        mu_w: NonNegative = 0.0,
        mu_v: NonNegative = 0.0,
        start: float = 1.0,
        dtype: Format = "float64",
    ) -> None:
        if matrix is not None and len({len(row) for row in matrix}) != 1:
            raise ValueError("matrix: its rows must have one length, at least 1")
        self.matrix = matrix
        self.mu_w = mu_w
        self.mu_v = mu_v
        self.start = start
        self.dtype = dtype

    def variables(self, model: nn.Module, splits: Mapping[str, Split]) -> Saddle:
        dim = train_tensor(splits, "y", "take `data: player_noise`").shape[1]
        matrix = torch.eye(dim) if self.matrix is None else torch.tensor(self.matrix, dtype=torch.float64)
        start = torch.full((dim,), self.start)
        return Saddle(model, {}, {"v": start}, {"matrix": matrix}, dtype_of(self.dtype))

    def evaluate(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        w, v = saddle(batch["x"]), saddle.max["v"]  # (batch, d_w), (d_v,)
        matrix: Any = saddle.matrix
        values = self.mu_w / 2 * w.square().sum(-1) + w @ (matrix @ v) - self.mu_v / 2 * v.square().sum()
        values = values + (batch["x"].to(w.dtype) * w).sum(-1) - batch["y"].to(w.dtype) @ v
        return values, (w, v)

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        w, v = outputs
        return {"distance": (w.detach().square().sum(-1) + v.detach().square().sum()).double().sum()}

    def strongly_concave(self) -> bool:
        return self.mu_v > 0

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        x, y = (train_tensor(splits, key, "take `data: player_noise`") for key in ("x", "y"))
        shape = (x.shape[1], y.shape[-1])
        found = shape if self.matrix is None else (len(self.matrix), len(self.matrix[0]))
        if y.dim() != 2 or not y.is_floating_point():
            raise RunError("data", "y must hold the noise of v's gradient", "take `data: player_noise`", where="data")
        if found != shape:
            message = f"is {found[0]} x {found[1]}, but the data disturb {shape[0]} entries of w and {shape[1]} of v"
            raise RunError("recipe", message, "set data.dim", where="task.matrix")
