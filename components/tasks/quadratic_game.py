"""Two players on a random strongly convex-concave quadratic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from raycipe.components.tasks._saddle import Format, dtype_of, train_tensor
from raycipe.framework.arguments import Positive
from raycipe.framework.contracts import Batch, Saddle, SaddleTask, Split
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register
from raycipe.framework.streams import numpy_generator


@register
class QuadraticGame(SaddleTask):
    """A random quadratic game whose saddle is known; reports loss (f) and distance, |w|² + |v|².

    f(w, v; x, y) = w'A w/2 + w'B v - v'C v/2 + x'w - y'v. A and C are random rotations of eigenvalues spaced evenly in
    the logarithm from mu to L, B is Gaussian with largest singular value L. The expected game has its saddle at 0, that
    of n examples solves [[A, B], [B', -C]] (w, v) = (-mean x, mean y). w is the model's point (model `point`).

    Args:
        smoothness: L, the largest curvature
        strength: mu, the least curvature; the condition number is L / mu
        start: the start value of each entry of v
        matrix_seed: draws A, B and C
        dtype: number format of both players

    Recipe:
        data: {type: player_noise, dim: 5}
        model: {type: point, start: 1.0}
        task: {type: quadratic_game, strength: 0.1}
        optimizer: {type: sgda, lr: 0.1}
    """

    reports: ClassVar[tuple[str, ...]] = ("loss", "distance")

    def __init__(
        self,
        smoothness: Positive = 1.0,
        strength: Positive = 0.05,
        start: float = 1.0,
        matrix_seed: int = 0,
        dtype: Format = "float64",
    ) -> None:
        if strength > smoothness:
            raise ValueError(f"strength: the least curvature can't be above the largest, {smoothness}, not {strength}")
        self.smoothness = smoothness
        self.strength = strength
        self.start = start
        self.matrix_seed = matrix_seed
        self.dtype = dtype

    def matrices(self, dim: int) -> tuple[Tensor, Tensor, Tensor]:
        """A, B, C, each (dim, dim) float64."""
        generator = numpy_generator(self.matrix_seed, "quadratic_game")
        eigenvalues = np.geomspace(self.strength, self.smoothness, dim)
        rotations = [np.linalg.qr(generator.normal(size=(dim, dim)))[0] for _ in range(2)]
        a, c = (rotation @ np.diag(eigenvalues) @ rotation.T for rotation in rotations)
        b = generator.normal(size=(dim, dim))
        b *= self.smoothness / np.linalg.norm(b, ord=2)
        return torch.from_numpy((a + a.T) / 2), torch.from_numpy(b), torch.from_numpy((c + c.T) / 2)

    def saddle_of(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The saddle (w, v) of the game of examples x and y, (n, dim)."""
        a, b, c = self.matrices(x.shape[1])
        system = torch.cat([torch.cat([a, b], dim=1), torch.cat([b.T, -c], dim=1)])
        solution = torch.linalg.solve(system, torch.cat([-x.double().mean(0), y.double().mean(0)]))
        return solution[: x.shape[1]], solution[x.shape[1] :]

    def variables(self, model: nn.Module, splits: Mapping[str, Split]) -> Saddle:
        dim = train_tensor(splits, "y", "take `data: player_noise`").shape[1]
        constants = dict(zip("ABC", self.matrices(dim), strict=True))
        return Saddle(model, {}, {"v": torch.full((dim,), self.start)}, constants, dtype_of(self.dtype))

    def evaluate(self, saddle: Saddle, batch: Batch) -> tuple[Tensor, Any]:
        w, v = saddle(batch["x"]), saddle.max["v"]  # (batch, dim), (dim,)
        a, b, c = saddle.get_buffer("A"), saddle.get_buffer("B"), saddle.get_buffer("C")
        values = ((w @ a) * w).sum(-1) / 2 + w @ (b @ v) - v @ (c @ v) / 2
        values = values + (batch["x"].to(w.dtype) * w).sum(-1) - batch["y"].to(w.dtype) @ v
        return values, (w, v)

    def best_response(self, saddle: Saddle, batch: Batch) -> Tensor | None:
        w = saddle(batch["x"][:1])[0].detach()
        return torch.linalg.solve(saddle.get_buffer("C"), saddle.get_buffer("B").T @ w - batch["y"].to(w.dtype).mean(0))

    def population(self, saddle: Saddle, facts: Mapping[str, Any]) -> tuple[float, float] | None:
        """max_v E f = w'(A + B C^-1 B')w / 2, least at 0."""
        a, b, c = saddle.get_buffer("A"), saddle.get_buffer("B"), saddle.get_buffer("C")
        w = next(p for _, p in saddle.role("min")).detach().reshape(-1)
        return float(w @ (a + b @ torch.linalg.solve(c, b.T)) @ w / 2), 0.0

    def scores(self, outputs: Any, batch: Batch) -> dict[str, Tensor]:
        w, v = outputs
        return {"distance": (w.detach().square().sum(-1) + v.detach().square().sum()).double().sum()}

    def check(self, facts: Mapping[str, Any], splits: Mapping[str, Split]) -> None:
        x, y = (train_tensor(splits, key, "take `data: player_noise`") for key in ("x", "y"))
        if not y.is_floating_point() or x.shape != y.shape:
            message = "x and y must hold the noise of the players' gradients, in one shape"
            raise RunError("data", message, "take `data: player_noise`", where="data")
