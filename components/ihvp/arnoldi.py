"""Arnoldi: the inverse on the eigenvectors of largest curvature alone."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor

from raycipe.components.ihvp._square import norm, require_square
from raycipe.framework.arguments import Count, Range
from raycipe.framework.contracts import InverseHVP, Solved, System
from raycipe.framework.curvature import lanczos
from raycipe.framework.registry import register
from raycipe.framework.streams import torch_generator


@register
class Arnoldi(InverseHVP):
    """Arnoldi's method: the inverse on the Ritz vectors of the largest |Ritz values|, and zero elsewhere.

    x = sum over the k largest |theta| of (q'b / theta) q, with (theta, q) the Ritz pairs of a Krylov space of A. For a
    symmetric A the method is Lanczos', here with every direction made orthogonal to all before, twice.

    Args:
        max_hvp: products with the curvature, the dimension of the Krylov space; so many vectors are kept
        top_k: how many Ritz vectors are used; small |theta| are left out
        start: the space grows from a random vector, as in the paper, or from b itself
        seed: of the random vector

    Reference:
        A. Schioppa, P. Zablotskaia, D. Vilar, A. Sokolov, Scaling Up Influence Functions, AAAI 2022.

    Recipe:
        data: digits
        model: {type: mlp, hidden: [16], activation: tanh}
        task: classification
        optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
        editor: {type: influence, forget: {type: one_class, label: 3}, ihvp: {type: arnoldi, max_hvp: 30, top_k: 20}}
    """

    def __init__(
        self,
        max_hvp: Annotated[int, Range(ge=1, le=10**4)] = 100,
        top_k: Count = 50,
        start: Literal["random", "gradient"] = "random",
        seed: Annotated[int, Range(ge=0, le=2**32 - 1)] = 0,
    ) -> None:
        self.max_hvp = max_hvp
        self.top_k = top_k
        self.start = start
        self.seed = seed

    def solve(self, system: System, b: Tensor) -> Solved:
        require_square(system, "arnoldi")
        if norm(b) == 0:
            return Solved(torch.zeros_like(b), 0, True, "exact")
        start = b if self.start == "gradient" else torch.randn(len(b), generator=torch_generator(self.seed, "arnoldi"))
        krylov = lanczos(system.product, start.to(b), self.max_hvp, with_vectors=True)
        assert krylov.vectors is not None  # asked for
        kept = krylov.values.abs().argsort(descending=True)[: self.top_k]
        kept = kept[krylov.values[kept].abs() > 1e-12 * krylov.scale]
        q, theta = krylov.vectors[:, kept].to(b), krylov.values[kept].to(b)  # (columns, k), (k,)
        return Solved(q @ ((q.T @ b) / theta), len(krylov.values), False, "budget")
