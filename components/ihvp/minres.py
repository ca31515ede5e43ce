"""The minimum residual method for symmetric, possibly indefinite matrices."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from raycipe.components.ihvp._square import Track, dot, norm, require_square
from raycipe.framework.arguments import Count, NonNegative
from raycipe.framework.contracts import InverseHVP, Solved, System
from raycipe.framework.registry import register


@register
class Minres(InverseHVP):
    """MINRES: the x in the Krylov space of A and b with the smallest |A x - b|; A may be indefinite, nothing is damped.

    Lanczos' tridiagonal T_k (k + 1 x k), turned to upper triangular by plane rotations as it grows; a product a step.

    Args:
        max_hvp: products with the curvature
        tol: ends when |A x - b| / |b| is no larger

    Reference:
        C. C. Paige, M. A. Saunders, Solution of Sparse Indefinite Systems of Linear Equations, SIAM Journal on
        Numerical Analysis, 1975.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: gif, forget: {type: one_class, label: 3}, ihvp: {type: minres, max_hvp: 20}}
    """

    def __init__(self, max_hvp: Count = 200, tol: NonNegative = 1e-3) -> None:
        self.max_hvp = max_hvp
        self.tol = tol

    def solve(self, system: System, b: Tensor) -> Solved:
        require_square(system, "minres")
        track = Track(system, b)
        x = torch.zeros_like(b)
        eta = beta = norm(b)
        track.add(0, b)
        if beta == 0:
            return Solved(x, 0, True, "exact", track.rows)
        v, v_before = b / beta, torch.zeros_like(b)
        w, w_before = torch.zeros_like(b), torch.zeros_like(b)
        beta, scale = 0.0, beta
        c, c_before, s, s_before = 1.0, 1.0, 0.0, 0.0  # rotations of this step and of the one before
        for step in range(1, self.max_hvp + 1):
            image = system.product(v)
            alpha = dot(v, image)
            image = image - alpha * v - beta * v_before
            beta_next = norm(image)
            # The new column of T under the last two rotations, then the rotation that removes beta_next.
            rho_0 = c * alpha - c_before * s * beta
            rho_1 = math.hypot(rho_0, beta_next)
            rho_2, rho_3 = s * alpha + c_before * c * beta, s_before * beta
            if rho_1 <= 1e-15 * scale:  # singular: b has no more part in the range of A
                return Solved(x, step - 1, False, "singular", track.rows)
            c_before, s_before = c, s
            c, s = rho_0 / rho_1, beta_next / rho_1
            w, w_before = (v - rho_3 * w_before - rho_2 * w) / rho_1, w
            x = x + c * eta * w
            eta = -s * eta
            track.rows.append({"iteration": step, "products": track.products, "residual": abs(eta) / scale})
            if abs(eta) / scale <= self.tol:
                return Solved(x, step, True, "tolerance", track.rows)
            if beta_next <= 1e-14 * abs(alpha):
                return Solved(x, step, True, "exact", track.rows)
            v, v_before, beta = image / beta_next, v, beta_next
        return Solved(x, self.max_hvp, False, "budget", track.rows)
