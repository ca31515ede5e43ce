"""The worst perturbation of each example, in closed form or by a search on a line."""

from __future__ import annotations

import torch
from torch import Tensor

SEARCH_STEPS = 60  # halvings of an interval: 1e-18 of its length


def worst_shift_of_square(residual: Tensor, weight: Tensor, budget: float, reg_v: float) -> Tensor:
    """The v (batch, d) with |v| <= budget that maximizes (r + w'v)² - reg_v/2 |v|² for each residual r (batch,).

    v = t sign(r) w / |w|, t = min(budget, 2 |r| |w| / (reg_v - 2 |w|²)) where that is concave (reg_v > 2 |w|²), else
    the whole budget. Of any w, since along w it is a quadratic in t with its peak or its ends.
    """
    norm = torch.linalg.vector_norm(weight)
    concave = reg_v - 2 * norm.square()
    peak = 2 * residual.abs() * norm / concave.clamp(min=torch.finfo(norm.dtype).tiny)
    length = torch.where(concave > 0, peak.clamp(max=budget), budget * torch.ones_like(peak))
    sign = torch.where(residual < 0, -1.0, 1.0).to(residual.dtype)
    return (length * sign).unsqueeze(-1) * weight / norm.clamp(min=torch.finfo(norm.dtype).tiny)


def worst_shift_of_huber(residual: Tensor, weight: Tensor, delta: float, budget: float, reg_v: float) -> Tensor:
    """The same for the Huber loss, by halving where the slope in t changes its sign; needs reg_v >= |w|² (concave)."""
    norm = torch.linalg.vector_norm(weight)
    size = residual.abs()
    length = _peak(lambda t: (size + norm * t).clamp(max=delta) * norm - reg_v * t, size, budget)
    sign = torch.where(residual < 0, -1.0, 1.0).to(residual.dtype)
    return (length * sign).unsqueeze(-1) * weight / norm.clamp(min=torch.finfo(norm.dtype).tiny)


def worst_shift_of_logistic(
    margin: Tensor, sign: Tensor, weight: Tensor, epsilon: float, norm: str, reg_v: float
) -> Tensor:
    """The v (batch, d) with norm <= epsilon that maximizes log(1 + exp(-(m + y w'v))) - reg_v/2 |v|², y = sign.

    l2: v = -t y w/|w|; reg_v 0 gives t = epsilon. linf: v = -y clip(s w / reg_v, epsilon) with s the sigmoid of minus
    the margin at v, found by halving; reg_v 0 gives -epsilon y sign(w). Concave for reg_v >= |w|²/4.
    """
    if norm == "l2":
        size = torch.linalg.vector_norm(weight)
        length = torch.full_like(margin, epsilon)
        if reg_v:
            length = _peak(lambda t: torch.sigmoid(size * t - margin) * size - reg_v * t, margin, epsilon)
        direction = weight / size.clamp(min=torch.finfo(size.dtype).tiny)
        return -(sign * length).unsqueeze(-1) * direction
    if not reg_v:
        return -epsilon * sign.unsqueeze(-1) * weight.sign()

    def shift(s: Tensor) -> Tensor:  # (batch,) -> (batch, d), without the sign
        return (s.unsqueeze(-1) * weight / reg_v).clamp(-epsilon, epsilon)

    slope = _peak(lambda s: torch.sigmoid(shift(s) @ weight - margin) - s, margin, 1.0)
    return -sign.unsqueeze(-1) * shift(slope)


def _peak(slope, like: Tensor, end: float) -> Tensor:  # type: ignore[no-untyped-def]
    """Where a falling function of t in [0, end] changes its sign, for each entry of `like`."""
    low, high = torch.zeros_like(like), torch.full_like(like, end)
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        rising = slope(middle) > 0
        low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
    return torch.where(slope(torch.full_like(like, end)) >= 0, torch.full_like(like, end), (low + high) / 2)
