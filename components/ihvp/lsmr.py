"""LSMR: least squares by Golub and Kahan's bidiagonalization."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from raycipe.components.ihvp._square import Track, norm
from raycipe.framework.arguments import NonNegative, Range
from raycipe.framework.contracts import InverseHVP, Solved, System
from raycipe.framework.registry import register


@register
class Lsmr(InverseHVP):
    """LSMR: minimizes |A'(A x - b)| over the Krylov space of A'A and A'b; any A, also tall or singular, no damping.

    In exact arithmetic it is MINRES on A'A x = A'b; two products a step.

    Args:
        max_hvp: products with the curvature
        tol: ends when |A x - b| / |b| or |A'(A x - b)| / |A'b| is no larger

    Reference:
        D. C.-L. Fong, M. A. Saunders, LSMR: An Iterative Algorithm for Sparse Least-Squares Problems, SIAM Journal on
        Scientific Computing, 2011.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: gif, rows: all, forget: {type: one_class, label: 3}, ihvp: {type: lsmr, max_hvp: 20}}
    """

    def __init__(self, max_hvp: Annotated[int, Range(ge=2, le=10**6)] = 200, tol: NonNegative = 1e-3) -> None:
        self.max_hvp = max_hvp
        self.tol = tol

    def solve(self, system: System, b: Tensor) -> Solved:
        track = Track(system, b)
        u, beta = _normed(b)
        x = torch.zeros_like(system.pick(b))
        track.add(0, b)
        v, alpha = _normed(system.transposed(u))
        if alpha * beta == 0:
            return Solved(x, 0, True, "exact", track.rows)
        h, h_bar = v, torch.zeros_like(x)
        image_h, image_bar, residual = torch.zeros_like(b), torch.zeros_like(b), b  # A h, A h_bar, b - A x
        alpha_bar, zeta_bar, rho, rho_bar, c_bar, s_bar, theta = alpha, alpha * beta, 1.0, 1.0, 1.0, 0.0, 0.0
        first = abs(zeta_bar)
        for step in range(1, self.max_hvp // 2 + 1):
            image = system.product(v)
            image_h = image - (theta / rho) * image_h
            u, beta = _normed(image - alpha * u)
            v, alpha = _normed(system.transposed(u) - beta * v)
            rho_before, rho = rho, math.hypot(alpha_bar, beta)  # rotation that removes beta
            c, s = alpha_bar / rho, beta / rho
            theta, alpha_bar = s * alpha, c * alpha
            rho_bar_before, theta_bar = rho_bar, s_bar * rho
            rho_bar = math.hypot(c_bar * rho, theta)  # rotation of the second bidiagonal matrix
            c_bar, s_bar = c_bar * rho / rho_bar, theta / rho_bar
            zeta, zeta_bar = c_bar * zeta_bar, -s_bar * zeta_bar
            turned = theta_bar * rho / (rho_before * rho_bar_before)
            h_bar, image_bar = h - turned * h_bar, image_h - turned * image_bar
            x, residual = x + (zeta / (rho * rho_bar)) * h_bar, residual - (zeta / (rho * rho_bar)) * image_bar
            h = v - (theta / rho) * h
            relative = track.add(step, residual)
            if min(relative, abs(zeta_bar) / first) <= self.tol:
                return Solved(x, step, True, "tolerance", track.rows)
            if alpha == 0 or beta == 0:
                return Solved(x, step, True, "exact", track.rows)
        return Solved(x, self.max_hvp // 2, False, "budget", track.rows)


def _normed(x: Tensor) -> tuple[Tensor, float]:
    length = norm(x)
    return (x / length if length > 0 else x), length
