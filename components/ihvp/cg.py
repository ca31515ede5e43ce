"""Conjugate gradients on the damped curvature."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from raycipe.components.ihvp._square import Track, dot, require_square
from raycipe.framework.arguments import Count, NonNegative
from raycipe.framework.contracts import InverseHVP, Solved, System
from raycipe.framework.errors import RunError
from raycipe.framework.registry import register


@register
class Cg(InverseHVP):
    """Conjugate gradients on (A + d I) x = b, which must be positive definite to be sure of an answer.

    Where a direction p with p'(A + d I) p <= 0 comes up, the method has no minimum to find along it.

    Args:
        max_hvp: products with the curvature
        tol: ends when |(A + d I) x - b| / |b| is no larger
        damping: d; beyond the size of the most negative eigenvalue the matrix is positive definite
        on_negative_curvature: keep what was found so far, go on (it may get worse), or fail

    Reference:
        M. R. Hestenes, E. Stiefel, Methods of Conjugate Gradients for Solving Linear Systems, 1952.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: influence, forget: {type: one_class, label: 3}, ihvp: {type: cg, max_hvp: 20, damping: 0.1}}
    """

    def __init__(
        self,
        max_hvp: Count = 200,
        tol: NonNegative = 1e-3,
        damping: NonNegative = 0.01,
        on_negative_curvature: Literal["stop", "continue", "raise"] = "stop",
    ) -> None:
        self.max_hvp = max_hvp
        self.tol = tol
        self.damping = damping
        self.on_negative_curvature = on_negative_curvature

    def solve(self, system: System, b: Tensor) -> Solved:
        require_square(system, "cg")
        track = Track(system, b)
        x, residual = torch.zeros_like(b), b
        direction, square = residual, dot(residual, residual)
        track.add(0, residual)
        for step in range(1, self.max_hvp + 1):
            if square == 0:
                return Solved(x, step - 1, True, "exact", track.rows)
            image = system.product(direction) + self.damping * direction
            curvature = dot(direction, image)
            if curvature <= 0 and self.on_negative_curvature == "raise":
                hint = "more damping, on_negative_curvature: stop, or a solver for indefinite matrices: p_lissa, minres"
                raise RunError("recipe", f"cg met negative curvature at step {step}", hint, "editor.ihvp")
            if (curvature <= 0 and self.on_negative_curvature == "stop") or curvature == 0:
                return Solved(x, step - 1, False, "negative curvature", track.rows)
            alpha = square / curvature
            x, residual = x + alpha * direction, residual - alpha * image
            square, last = dot(residual, residual), square
            found = track.add(step, residual)
            if not math.isfinite(found):
                return Solved(x, step, False, "diverged", track.rows)
            if found <= self.tol:
                return Solved(x, step, True, "tolerance", track.rows)
            direction = residual + (square / last) * direction
        return Solved(x, self.max_hvp, False, "budget", track.rows)
